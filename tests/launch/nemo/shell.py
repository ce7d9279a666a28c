"""A user's shell: a home, a working directory, Slurm's programs as recorders, and the launcher to call in it."""

import os
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from trainwright.launch.command_line import split
from trainwright.launch.settings import effective
from trainwright.launch.slurm import launch_slurm

# Takes every script: keeps its words, its environment and the script; answers as sbatch --parsable does.
SBATCH = """\
#!/bin/sh
printf '%s\\n' "$@" >{place}/sbatch.words
cat /proc/$$/environ >{place}/sbatch.environment
for script; do :; done
cat "$script" >{place}/sbatch.script
ls -R {place}/home >{place}/sbatch.home
find {place} -name launch.json | head -n 1 | xargs cat >{place}/sbatch.launch.json
echo "{answer}"
"""
REFUSING = """\
#!/bin/sh
echo "sbatch: error: invalid partition specified: no-such" >&2
echo "sbatch: error: Batch job submission failed: Invalid partition name specified" >&2
exit 1
"""


@dataclass(frozen=True)
class Said:
    """What a launch came to."""

    code: int
    out: str
    err: str


@dataclass(frozen=True)
class Shell:
    """Where the launcher is called, in the process that has imported nemo_run."""

    place: Path
    elsewhere: Callable[..., Any]

    def __post_init__(self) -> None:
        for name in ("home", "work", "bin", "tmp"):
            (self.place / name).mkdir()
        self.program("sbatch", SBATCH.format(place=self.place, answer=4711))

    @property
    def home(self) -> Path:
        """HOME."""
        return self.place / "home"

    @property
    def work(self) -> Path:
        """The working directory."""
        return self.place / "work"

    def program(self, name: str, text: str) -> None:
        """Put a program on PATH."""
        path = self.place / "bin" / name
        path.write_text(text)
        path.chmod(0o755)

    def launch(self, *words: str, **variables: str) -> Said:
        """`trainwright launch WORDS` with `variables` set."""
        own = {
            "HOME": str(self.home),
            "TMPDIR": str(self.place / "tmp"),
            "PATH": f"{self.place}/bin:/usr/bin:/bin",
            "LANG": "C.UTF-8",
        }
        return self.elsewhere(launched, words, {**own, **variables}, self.work, self.place)

    def kept(self, name: str) -> str:
        """What sbatch has written down."""
        return (self.place / f"sbatch.{name}").read_text(errors="surrogateescape")

    def tree(self) -> list[str]:
        """Everything below the home, the working directory and the one for temporary files."""
        folders = [self.place / name for name in ("home", "work", "tmp")]
        return sorted(str(path.relative_to(self.place)) for folder in folders for path in folder.rglob("*"))


def begin(home: Path) -> None:
    """Give this process a home before it imports nemo_run."""
    os.environ.update({"HOME": str(home), "NEMORUN_HOME": str(home / ".nemo_run")})


def launched(words: tuple[str, ...], environment: Mapping[str, str], cwd: Path, place: Path) -> Said:
    """Call the launcher in this process as a shell would, and put everything back."""
    before, was = dict(os.environ), Path.cwd()
    sys.stdout.flush()
    sys.stderr.flush()
    saved = [os.dup(1), os.dup(2)]
    paths = [place / "said.out", place / "said.err"]
    for number, path in zip((1, 2), paths, strict=True):
        with path.open("wb") as file:
            os.dup2(file.fileno(), number)
    try:
        _become(environment)
        os.chdir(cwd)
        code = _call(words)
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        for number, original in zip((1, 2), saved, strict=True):
            os.dup2(original, number)
            os.close(original)
        os.chdir(was)
        _become(before)
    out, err = (path.read_text() for path in paths)
    return Said(code, out, err)


def _become(environment: Mapping[str, str]) -> None:
    for name in os.environ.keys() - environment.keys():
        del os.environ[name]
    os.environ.update(environment)


def _call(words: tuple[str, ...]) -> int:
    """As the app does it: errors of ours become one line and an exit code."""
    try:
        typed = split(words)
        return launch_slurm(effective(typed, os.environ, None), typed.words)
    except Exception as error:
        code = getattr(error, "exit_code", None)
        if code is None:
            raise
        print(f"trainwright: {error}", file=sys.stderr)
        return int(code)
