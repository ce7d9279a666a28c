"""The text of each option's value, checked. Every check raises `ValueError` with what is wrong and what is allowed."""

import re
from collections.abc import Callable, Mapping
from pathlib import Path

MEMORY_CLOCK_VR200 = 4752
"""MHz. What VR200 benchmark recipes are tuned at."""

_IDENTIFIER = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_BASH_OWN = re.compile(
    "_|BASH|BASH_(ARGV0|COMMAND|EXECUTION_STRING|SUBSHELL|VERSINFO|VERSION)|BASHOPTS|BASHPID|COMP_WORDBREAKS|EPOCHREALTIME"
    "|EPOCHSECONDS|HISTCMD|IFS|LINENO|OPTERR|OPTIND|PPID|PS1|PS4|PWD|RANDOM|SHELLOPTS|SHLVL|SRANDOM"
)
"""What bash 5.2 does not leave as it finds it in its environment."""
SCRIPT_PREFIX = "trainwright_"
"""Of every shell variable in a job's scripts."""
_MAX_DIGITS = 9
_MAX_SHOWN = 200
"""Characters of a value in an error message."""
_TIME = re.compile(r"\d+|\d+:\d\d|\d+:\d\d:\d\d|\d+-\d+(:\d\d(:\d\d)?)?")
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,127}")
_FACTORY = re.compile(r"[A-Za-z_]\w*(\.[A-Za-z_]\w*)*:[A-Za-z_]\w*")
_SIGNAL = re.compile(r"(?:SIG)?(?:USR1|TERM)@(?P<seconds>[1-9]\d*)")
_MAX_SIGNAL_SECONDS = 65535
"""Slurm keeps the time of --signal in 16 bits."""


def positive(text: str) -> int:
    """A whole number of at least 1."""
    return _whole(text, least=1)


def not_negative(text: str) -> int:
    """A whole number of at least 0."""
    return _whole(text, least=0)


def memory_clock(text: str) -> int:
    """MHz, or -1 for no lock."""
    try:
        return -1 if text == "-1" else positive(text)
    except ValueError:
        raise ValueError("a clock in MHz is a whole number of at least 1; -1 leaves the clock alone") from None


def time_limit(text: str) -> str:
    """One of the six forms in which Slurm writes a time limit."""
    if not _TIME.fullmatch(text) or not text.isascii():
        raise ValueError("not a time: write MM, MM:SS, HH:MM:SS, D-HH, D-HH:MM or D-HH:MM:SS")
    return text


def signal(text: str) -> str:
    """`USR1@SECONDS` or `TERM@SECONDS`."""
    if text.upper().startswith("B:") or ":" in text:
        raise ValueError(
            "B: signals the batch shell alone, which waits for srun and cannot pass it on: write USR1@SECONDS"
        )
    found = _SIGNAL.fullmatch(text) if text.isascii() else None
    if found is None:
        raise ValueError("run-recipe stops in good order on USR1 and TERM only: write USR1@SECONDS or TERM@SECONDS")
    if int(found["seconds"]) > _MAX_SIGNAL_SECONDS:
        raise ValueError(f"Slurm takes at most {_MAX_SIGNAL_SECONDS} seconds")
    return text


def name(text: str) -> str:
    """A name that is safe as a file name and a job name."""
    if not _NAME.fullmatch(text):
        raise ValueError(
            "letters, digits, `_`, `.` and `-` are allowed, and a letter or digit at the beginning; 128 in all"
        )
    return text


def executor(text: str) -> str:
    """`slurm`, `local`, or a function to import."""
    if text not in ("slurm", "local") and not _FACTORY.fullmatch(text):
        raise ValueError("no such executor: slurm, local, or MODULE:FUNCTION are allowed")
    return text


def render(text: str) -> str:
    """The one format there is."""
    if text != "sbatch":
        raise ValueError("no such format: only sbatch is there")
    return text


def one_line(text: str) -> str:
    """Text for one line of a script: printable, and the same after it was written as UTF-8."""
    if not text.isprintable() or text != text.strip():
        raise ValueError("only printable text, without blanks at either end, is allowed")
    return text


def directive(text: str) -> str:
    """Text for an `#SBATCH` line: sbatch reads quotes there as a shell does, but drops every backslash."""
    if "\\" in text:
        raise ValueError("sbatch drops a backslash that it reads in a script")
    return one_line(text)


def slurm_word(text: str) -> str:
    """A word of Slurm's own, such as an account: printable and without blanks."""
    if not directive(text) or any(character.isspace() for character in text):
        raise ValueError("blanks are not allowed in it")
    return text


def variable(text: str) -> str:
    """The name of a variable that may reach the container."""
    if not _IDENTIFIER.fullmatch(text):
        raise ValueError("not the name of a variable: letters, digits and `_`, and no digit at the beginning")
    if text == "PATH":
        raise ValueError("the image's own must stay: programs are looked up in the container")
    if _BASH_OWN.fullmatch(text):
        raise ValueError("bash gives it another value in the job's script, so yours would be lost")
    if text.startswith(SCRIPT_PREFIX):
        raise ValueError(f"the job's script has variables of its own that begin with {SCRIPT_PREFIX}")
    return text


def image(text: str, cwd: Path) -> str:
    """A file of `cwd` becomes an absolute path; anything else is the container runtime's to know."""
    if not text.isprintable():
        raise ValueError("only printable text is allowed")
    if text.startswith("~") or "$" in text:
        raise ValueError("`~` and `$` are not expanded here: write the whole path")
    if text.startswith("/"):
        return text
    if (cwd / text).exists():
        return str(cwd / text)
    if text.startswith(".") or text.endswith((".sqsh", ".squashfs")):
        raise ValueError(f"there is no such file in {cwd}")
    return text


CHECKS: Mapping[str, Callable[[str], object]] = {
    "executor": executor,
    "nodes": positive,
    "gpus_per_node": positive,
    "nproc_per_node": positive,
    "account": slurm_word,
    "partition": slurm_word,
    "time": time_limit,
    "gres": slurm_word,
    "peak_mem_clk": memory_clock,
    "experiment_name": name,
    "signal": signal,
    "max_requeues": not_negative,
    "render": render,
    "cluster": one_line,
    "cluster_file": str,
}
"""Destination to its check, for options that need nothing but their text."""


def shown(value: object) -> str:
    """A value for an error message: as typed where that is one plain word, else in quotes."""
    text = str(value)
    if len(text) > _MAX_SHOWN:
        text = f"{text[:_MAX_SHOWN]}..."
    plain = text.isprintable() and not any(character.isspace() for character in text) and not text.endswith(":")
    return text if text and plain else repr(text)


def _whole(text: str, *, least: int) -> int:
    # Slurm keeps such numbers in 32 bits, and Python reads none of more than 4300 digits.
    if not (text.isascii() and text.isdecimal()) or len(text) > _MAX_DIGITS or int(text) < least:
        raise ValueError(f"a whole number of at least {least} is needed")
    return int(text)
