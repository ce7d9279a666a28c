"""docs/launch.md beside the code: the table of options, the cluster file, the executor of one's own."""

import re
from pathlib import Path

import pytest

from trainwright.launch.clusters import read_cluster
from trainwright.launch.command_line import split
from trainwright.launch.options import OPTIONS, Option
from trainwright.launch.settings import effective

PAGE = (Path(__file__).parents[2] / "docs" / "launch.md").read_text(encoding="utf-8")


def row(option: Option) -> str:
    """An option as the page's table has it."""
    names = " ".join(filter(None, (f"`{', '.join(option.names)}", option.metavar))) + "`"
    also = [f"`{name}`" for name in option.environment]
    also += ["cluster file"] if option.cluster else []
    needed = "required" if option.required else ""
    return f"| {names} | {option.help} | {', '.join(filter(None, (needed, *also)))} |".replace("  |", " |")


def test_the_table_is_the_codes() -> None:
    """Every option, in the order of the code, with its own words."""
    (section,) = re.findall(r"^## Options\n(.*?)^## ", PAGE, re.DOTALL | re.MULTILINE)
    table = [line for line in section.splitlines() if line.startswith("| `-")]
    assert table == [row(option) for option in OPTIONS]


def example() -> str:
    """The cluster file of the page."""
    (text,) = re.findall(r"```toml\n(.*?)```", PAGE, re.DOTALL)
    return text


@pytest.mark.parametrize("name", re.findall(r"^\[(\w+)\]$", PAGE, re.MULTILINE))
def test_the_cluster_file_is_one(tmp_path: Path, name: str) -> None:
    """Each of its tables is read, and holds all that a job needs beside its nodes."""
    file = tmp_path / "clusters.toml"
    file.write_text(example())
    settings = effective(split(["--nodes", "2"]), {}, read_cluster(file, name))
    assert settings.account
    assert settings.partition
    assert settings.container_image
    assert settings.gpus_per_node
