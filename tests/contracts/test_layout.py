"""The house stands as docs/extending.md draws it: what every member has, and what it may not have."""

import re
from collections import Counter
from pathlib import Path
from typing import Any

Projects = dict[Path, dict[str, Any]]

# The format of the session log is described where its code is, for whoever installs that package alone.
README_LINES = {"metrics-audit": 110}


def module_of(project: dict[str, Any]) -> str:
    """The import name that a member owns."""
    return project["tool"]["uv"]["build-backend"]["module-name"]


def test_every_member_has_a_readme_a_typed_module_and_a_licence(projects: Projects) -> None:
    """A reader finds what a member is, and a type checker finds its types."""
    assert len(projects) == 8
    for folder, project in projects.items():
        module = folder / "src" / module_of(project).replace(".", "/")
        assert (module / "__init__.py").is_file(), module
        assert (module / "py.typed").is_file(), module
        assert project["project"]["license"] == "Apache-2.0"
        readme = (folder / "README.md").read_text(encoding="utf-8")
        assert readme.startswith(f"# {project['project']['name']}\n"), folder
        lines = README_LINES.get(folder.name, 60)
        assert len(readme.splitlines()) <= lines, f"{folder}/README.md is longer than a screen"


def test_the_namespace_belongs_to_nobody(projects: Projects) -> None:
    """An `__init__.py` in `trainwright/` would hide every sibling."""
    for folder in projects:
        assert not (folder / "src" / "trainwright" / "__init__.py").exists()


def test_a_member_owns_one_module(projects: Projects) -> None:
    """One distribution, one import name."""
    owned = Counter(module_of(project) for project in projects.values())
    assert set(owned.values()) == {1}
    for folder, project in projects.items():
        top, _, inner = module_of(project).partition(".")
        assert [path.name for path in (folder / "src").iterdir() if path.is_dir()] == [top]
        if inner:
            portions = [path.name for path in (folder / "src" / top).iterdir() if path.name != "__pycache__"]
            assert portions == [inner]


def test_versions_move_together(projects: Projects) -> None:
    """All members carry one version."""
    assert len({project["project"]["version"] for project in projects.values()}) == 1


def test_dependencies_are_sorted_and_unique(projects: Projects, root_project: dict[str, Any]) -> None:
    """A dependency stands in one place, where a reader looks for it."""
    lists = [project["project"]["dependencies"] for project in projects.values()]
    for project in projects.values():
        lists += project["project"].get("optional-dependencies", {}).values()
    for group in root_project["dependency-groups"].values():
        lists.append([entry for entry in group if isinstance(entry, str)])
    for dependencies in lists:
        names = [re.split(r"[\[<>=!~; ]", dependency)[0] for dependency in dependencies]
        assert names == sorted(set(names)), dependencies


def test_the_audit_needs_the_standard_library_alone(projects: Projects) -> None:
    """metrics-audit and launch bring nothing with them."""
    bare = {project["project"]["name"] for project in projects.values() if not project["project"]["dependencies"]}
    assert "trainwright-metrics-audit" in bare


def test_import_contracts_cover_every_member(projects: Projects, root_project: dict[str, Any]) -> None:
    """import-linter cannot know of a portion that nobody listed."""
    listed = root_project["tool"]["importlinter"]["root_packages"]
    assert listed == sorted(module_of(project) for project in projects.values())
    assert "allow_indirect_imports" not in str(root_project["tool"]["importlinter"])


def test_nox_tests_every_package(projects: Projects, root: Path) -> None:
    """`nox -s unit` forgets no package, and each has a folder of tests."""
    noxfile = (root / "noxfile.py").read_text(encoding="utf-8")
    for folder, project in projects.items():
        if folder.parent.name != "packages":
            continue
        tests = f"tests/{folder.name.replace('-', '_')}"
        assert f'"{project["project"]["name"]}": "{tests}"' in noxfile
        assert list((root / tests).glob("test_*.py")), tests
