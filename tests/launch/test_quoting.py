"""Words reach a program through real bash as they were."""

import os
import subprocess

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from trainwright.launch import LaunchError
from trainwright.launch.quoting import MAX_LINE_BYTES, MAX_WORD_BYTES, bash_quote, check_lengths

ARGUMENTS = st.lists(st.binary(max_size=40).filter(lambda word: b"\0" not in word), max_size=30)


def through_bash(words: list[bytes], locale: str) -> list[bytes]:
    """What a program gets that a script of bash starts with the quoted words."""
    script = "printf '%s\\0' x " + " ".join(bash_quote(os.fsdecode(word)) for word in words) + "\n"
    script.encode("ascii")
    environment = {"PATH": os.defpath, "LC_ALL": locale}
    done = subprocess.run(["bash", "-c", script], env=environment, capture_output=True, check=True, timeout=60)
    return done.stdout.split(b"\0")[1:-1]


@settings(deadline=None, max_examples=60)
@given(ARGUMENTS, st.sampled_from(["C", "C.UTF-8"]))
def test_any_bytes_arrive(words: list[bytes], locale: str) -> None:
    """The script is pure ASCII whatever the words hold, and bash's locale does not matter."""
    assert through_bash(words, locale) == words


def test_every_single_byte_arrives() -> None:
    """Alone, and between letters that could be read as digits of an escape."""
    words = [form % bytes([byte]) for byte in range(1, 256) for form in (b"%b", b"f%bf", b"'%b'", b"\\%b")]
    assert through_bash(words, "C.UTF-8") == words


@pytest.mark.parametrize(
    ("word", "quoted"),
    [
        ("plain-word_1.2/3:4=5", "plain-word_1.2/3:4=5"),
        ("", "''"),
        ("a b", "'a b'"),
        ("it's", "'it'\"'\"'s'"),
        ("$HOME", "'$HOME'"),
        ("é", "$'\\xc3\\xa9'"),
        ("it's\n", "$'it\\'s\\x0a'"),
        ("\udcff", "$'\\xff'"),
    ],
)
def test_words_stay_readable(word: str, quoted: str) -> None:
    """Only what needs it is quoted."""
    assert bash_quote(word) == quoted


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["x" * (MAX_WORD_BYTES + 1)], r"the word 'x{40}'\.\.\. has 131001 bytes"),
        (["é" * 70_000], "has 140000 bytes"),
        (["x" * 130_000] * (MAX_LINE_BYTES // 130_000 + 1), "the words have 2080016 bytes together"),
        (["a\0b"], "zero byte"),
    ],
)
def test_what_linux_cannot_pass_on_is_refused(words: list[str], message: str) -> None:
    """Before anything is submitted, in one line."""
    with pytest.raises(LaunchError, match=message):
        check_lengths(words)


def test_the_longest_word_can_be_passed_on() -> None:
    """The bound is Linux's."""
    assert through_bash([b"x" * 100_000], "C") == [b"x" * 100_000]
    done = subprocess.run(["/bin/true", "x" * MAX_WORD_BYTES], check=False)
    assert done.returncode == 0
