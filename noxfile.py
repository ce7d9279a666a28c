"""Every check and test of the repository. `uv run nox` runs all of them; `uv run nox --list` says what each is for."""

from pathlib import Path

import nox

nox.needs_version = ">=2025.2"
nox.options.default_venv_backend = "uv"
nox.options.reuse_venv = "yes"
nox.options.error_on_external_run = True

ROOT = Path(__file__).parent
PYTHON = (ROOT / ".python-version").read_text().strip()

# Each member and the folder under tests/ that is its own.
MEMBERS = {
    "trainwright-report-schema": "tests/report_schema",
    "trainwright-metrics-audit": "tests/metrics_audit",
    "trainwright-recipes": "tests/recipes",
    "trainwright-launch": "tests/launch",
    "trainwright-datasets": "tests/datasets",
    "trainwright-runner": "tests/runner",
}
STRICTLY_TYPED = (
    "trainwright.report_schema",
    "trainwright.metrics_audit",
    "trainwright.recipes",
    "trainwright.launch",
    "trainwright_login",
)


# What is really imported gets its bytecode at first import; all of torch would take minutes.
UNCOMPILED = "--no-compile-bytecode"


def project(session: nox.Session, *command: str, **environment: str) -> None:
    """Run a command in the project's own environment, which holds every member and every tool, as uv.lock says."""
    # nox points uv at the session's environment.
    own: dict[str, str | None] = {"UV_PROJECT_ENVIRONMENT": None, "UV_PYTHON": None, "VIRTUAL_ENV": None}
    session.run("uv", "run", "--locked", *command, external=True, env={**own, **environment})


def install_wheel(session: nox.Session, distribution: str) -> None:
    """Build the wheels of all members and install one, with what it depends on, at the versions of uv.lock."""
    work = Path(session.create_tmp())
    wheels, versions = work / "wheels", work / "versions.txt"
    session.run("uv", "build", "--all-packages", "--wheel", "--quiet", "--clear", "-o", str(wheels), external=True)
    locked = ("--locked", "--all-packages", "--all-extras", "--no-default-groups", "--no-emit-workspace", "--no-hashes")
    session.run("uv", "export", *locked, "--quiet", "-o", str(versions), external=True)
    members = sorted(wheel.name.split("-")[0].replace("_", "-") for wheel in wheels.glob("*.whl"))
    again = [word for member in members for word in ("--reinstall-package", member)]
    session.install("--find-links", str(wheels), "--constraint", str(versions), *again, UNCOMPILED, distribution)


@nox.session(venv_backend="none")
def lint(session: nox.Session) -> None:
    """Style, complexity and import order (ruff)."""
    project(session, "ruff", "check", ".")
    project(session, "ruff", "format", "--check", ".")


@nox.session(venv_backend="none")
def types(session: nox.Session) -> None:
    """Static types, strictly, in everything below the login node's command (mypy)."""
    project(session, "mypy", *(word for name in STRICTLY_TYPED for word in ("-p", name)))


@nox.session(venv_backend="none")
def imports(session: nox.Session) -> None:
    """Who may import whom (import-linter; the contracts stand in pyproject.toml)."""
    project(session, "lint-imports", "--no-cache")


@nox.session(python=PYTHON)
@nox.parametrize("member", list(MEMBERS), ids=[name.removeprefix("trainwright-") for name in MEMBERS])
def unit(session: nox.Session, member: str) -> None:
    """Each package's fast tests in an environment that holds only what that package declares."""
    sync = ("--locked", "--package", member, "--all-extras", "--no-default-groups", "--group", "test", UNCOMPILED)
    session.run_install("uv", "sync", *sync, external=True)
    session.run("pytest", "-q", "-m", "not distributed and not slow", MEMBERS[member])


@nox.session(venv_backend="none")
def tests(session: nox.Session) -> None:
    """All tests but those of the sessions below; words after `--` go to pytest."""
    project(session, "pytest", *session.posargs)


@nox.session(venv_backend="none")
def slurm(session: nox.Session) -> None:
    """Jobs through a real Slurm of two nodes on loopback."""
    project(session, "pytest", "tests/slurm", *session.posargs)


@nox.session(venv_backend="none")
def docs(session: nox.Session) -> None:
    """Every command in the README, in docs/ and in the packages' READMEs runs."""
    project(session, "pytest", "tests/docs", *session.posargs)


@nox.session(python=PYTHON, reuse_venv=False)
def login(session: nox.Session) -> None:
    """The login app alone, from its wheel, without and with its extras: it works, and no torch came along."""
    tests = {"trainwright": "login_wheel", "trainwright[preflight,report]": "login_wheel_with_extras"}
    for requirement, name in tests.items():
        install_wheel(session, requirement)
        project(session, "pytest", f"tests/installed/test_{name}.py", TRAINWRIGHT_INSTALLED=session.bin)


@nox.session(python=PYTHON, reuse_venv=False)
def trainer(session: nox.Session) -> None:
    """The trainer app alone, from its wheel: it prepares data, trains and resumes."""
    install_wheel(session, "trainwright-trainer")
    project(session, "pytest", "tests/installed/test_trainer_wheel.py", TRAINWRIGHT_INSTALLED=session.bin)


@nox.session(venv_backend="none", default=False)
def nightly(session: nox.Session) -> None:
    """What takes too long for every change: a published model fine-tuned, every family beside transformers and peft,
    every benchmark recipe rehearsed."""
    project(session, "pytest", "tests/nightly", *session.posargs)


@nox.session(venv_backend="none", default=False)
def catalogue(session: nox.Session) -> None:
    """Regenerate the checked-in list of Megatron Core's configuration fields."""
    project(session, "python", "-m", "trainwright.recipes.catalogue.generate")
