"""Corruptions of whole lines and of bytes: refused with the line number, or harmless for the reason beside them."""

import json
import os
from collections.abc import Callable

import pytest

from trainwright.metrics_audit.audit import InvalidRun, summarize

LIMIT = 8 * 1024 * 1024
Lines = list[bytes]
Change = Callable[[Lines], object]


def on_line(number: int, old: bytes, new: bytes, count: int = 1) -> Change:
    """Replace bytes within one line (counted from 1); the bytes must be there."""

    def change(lines: Lines) -> None:
        assert old in lines[number - 1]
        lines[number - 1] = lines[number - 1].replace(old, new, count)

    return change


def put(number: int, line: bytes) -> Change:
    """Make ``line`` the line of that number; the others move on."""
    return lambda lines: lines.insert(number - 1, line)


def swap(one: int, other: int) -> Change:
    def change(lines: Lines) -> None:
        lines[one - 1], lines[other - 1] = lines[other - 1], lines[one - 1]

    return change


def copy_line(number: int, to: int) -> Change:
    return lambda lines: lines.insert(to - 1, lines[number - 1])


def delete(number: int) -> Change:
    return lambda lines: lines.pop(number - 1)


def keep_bytes(data: Callable[[Lines], bytes]) -> Change:
    def change(lines: Lines) -> None:
        lines[:] = [data(lines)]

    return change


def padded(size: int) -> Change:
    """Make line 4 ``size`` bytes long, its newline included, with a key that no reader knows."""

    def change(lines: Lines) -> None:
        head = lines[3].rstrip(b"}\n") + b', "padding": "'
        lines[3] = head + b"x" * (size - len(head) - 3) + b'"}\n'
        assert len(lines[3]) == size
        json.loads(lines[3])

    return change


DEEP = b"[" * 100_000 + b"]" * 100_000

# (what is done, how, the line that the refusal must name, a word of it)
REFUSED = [
    ("blank line first", put(1, b"\n"), 1, "blank"),
    ("blank line within", put(5, b"\n"), 5, "blank"),
    ("blank line last", put(9, b"\n"), 9, "blank"),
    ("line of spaces", put(5, b"   \n"), 5, "blank"),
    ("line of carriage return", put(5, b"\r\n"), 5, "blank"),
    ("line of NUL bytes", put(9, b"\0" * 64 + b"\n"), 9, "strict JSON"),
    ("comment line", put(5, b"# a note\n"), 5, "strict JSON"),
    ("comment after the record", on_line(5, b"}\n", b"} // note\n"), 5, "follows"),
    ("trailing comma", on_line(5, b"}\n", b",}\n"), 5, "strict JSON"),
    ("single quotes", on_line(5, b'"event"', b"'event'"), 5, "strict JSON"),
    ("unquoted key", on_line(5, b'"event"', b"event"), 5, "strict JSON"),
    ("two records on a line", on_line(5, b"}\n", b"} {}\n"), 5, "follows"),
    ("record doubled on a line", on_line(5, b"\n", b"{}\n"), 5, "follows"),
    ("records joined, newline lost", on_line(4, b"\n", b""), 4, "follows"),
    ("newline within a record", on_line(5, b", ", b",\n"), 5, "strict JSON"),
    ("list", put(5, b'["session_id"]\n'), 5, "a list"),
    ("string", put(5, b'"session_id"\n'), 5, "session_id"),
    ("number", put(5, b"5\n"), 5, "it must be a JSON object"),
    ("null", put(5, b"null\n"), 5, "null"),
    ("empty object", put(5, b"{}\n"), 5, "session_id"),
    ("session_id of another type in a foreign line", put(1, b'{"session_id": 7}\n'), 1, "session_id"),
    ("NaN in a foreign session", put(1, b'{"session_id": "x", "loss": NaN}\n'), 1, "NaN"),
    ("Infinity in a foreign session", put(1, b'{"session_id": "x", "loss": Infinity}\n'), 1, "Infinity"),
    ("NaN in an unknown key", on_line(5, b'"event"', b'"more": NaN, "event"'), 5, "NaN"),
    ("NaN in the first session", on_line(1, b'"loss": 5.0', b'"loss": NaN'), 1, "NaN"),
    ("leading zero", on_line(5, b'"updates": 10', b'"updates": 010'), 5, "strict JSON"),
    ("leading plus", on_line(5, b'"updates": 10', b'"updates": +10'), 5, "strict JSON"),
    ("hexadecimal", on_line(5, b'"updates": 10', b'"updates": 0xa'), 5, "strict JSON"),
    ("bare decimal point", on_line(5, b'"loss": 3.0', b'"loss": 3.'), 5, "strict JSON"),
    ("None", on_line(5, b"null", b"None"), 5, "strict JSON"),
    ("True", on_line(5, b'"updates": 10', b'"updates": True'), 5, "strict JSON"),
    ("control character in a string", on_line(4, b'"val"', b'"v\x01al"'), 4, "control character"),
    ("tab in a string", on_line(4, b'"val"', b'"v\tal"'), 4, "control character"),
    ("bad escape", on_line(4, b'"val"', b'"v\\xal"'), 4, "escape"),
    ("unterminated string", put(5, b'{"session_id": "0002-bbbb\n'), 5, "strict JSON"),
    ("invalid UTF-8", on_line(5, b'"event"', b'"\xff": 1, "event"'), 5, "UTF-8"),
    ("UTF-8 cut in a character", on_line(5, b'"event"', b'"\xe2\x80": 1, "event"'), 5, "UTF-8"),
    ("surrogate in UTF-8", on_line(5, b'"event"', b'"\xed\xa0\x80": 1, "event"'), 5, "UTF-8"),
    ("overlong UTF-8", on_line(5, b'"event"', b'"\xc0\xaf": 1, "event"'), 5, "UTF-8"),
    ("invalid UTF-8 in a foreign line", put(1, b'{"session_id": "\xff"}\n'), 1, "UTF-8"),
    ("byte-order mark first", on_line(1, b"{", b"\xef\xbb\xbf{"), 1, "byte-order mark"),
    ("byte-order mark within", on_line(5, b"{", b"\xef\xbb\xbf{"), 5, "byte-order mark"),
    ("UTF-16", keep_bytes(lambda lines: b"".join(lines).decode().encode("utf-16")), 1, "UTF-8"),
    ("UTF-16 without a mark", keep_bytes(lambda lines: b"".join(lines).decode().encode("utf-16-le")), 1, "strict JSON"),
    ("gzip", keep_bytes(lambda lines: b"\x1f\x8b\x08\x00" + b"\0" * 40), 1, "newline"),
    ("no-break space around", on_line(5, b"{", b"\xc2\xa0{"), 5, "strict JSON"),
    ("form feed around", on_line(5, b"{", b"\x0c{"), 5, "strict JSON"),
    ("U+2028 as the line's end", on_line(4, b"\n", b"\xe2\x80\xa8"), 4, "follows"),
    ("carriage return as the line's end", on_line(4, b"\n", b"\r"), 4, "follows"),
    ("all line ends carriage returns", keep_bytes(lambda lines: b"".join(lines).replace(b"\n", b"\r")), 1, "newline"),
    ("deep list in an unknown key", on_line(5, b'"event"', b'"more": ' + DEEP + b', "event"'), 5, "nested"),
    ("deep list alone", put(5, DEEP + b"\n"), 5, "nested"),
    ("deep objects", put(5, b'{"a":' * 100_000 + b"1" + b"}" * 100_000 + b"\n"), 5, "nested"),
    ("absurd integer in an unknown key", on_line(5, b'"event"', b'"more": ' + b"7" * 5000 + b', "event"'), 5, "digits"),
    ("one byte over 8 MiB", padded(LIMIT + 1), 4, "longer than 8388608 bytes"),
    ("far over 8 MiB", padded(3 * LIMIT), 4, "longer"),
    ("over 8 MiB without a newline", put(9, b"x" * (LIMIT + 1)), 9, "longer"),
    ("8 MiB of spaces", put(5, b" " * (LIMIT - 1) + b"\n"), 5, "blank"),
    ("key twice", on_line(5, b'"event"', b'"loss": 1.0, "event"'), 5, "twice"),
    ("key twice, second spelt with an escape", on_line(5, b'"updates"', b'"l\\u006fss": 9.0, "updates"'), 5, "twice"),
    ("key twice in an inner object", on_line(5, b'"default"', b'"default": 5.0, "default"'), 5, "twice"),
    ("key twice, hidden behind a colon", on_line(5, b'"event"', b'"a": {"b": 1}, "loss": 1, "event"'), 5, "twice"),
    ("key twice in a foreign session", put(1, b'{"session_id": "x", "session_id": "y"}\n'), 1, "twice"),
    ("first window deleted", delete(3), 4, "step is 120; it must be the previous step 100 + updates 10, 110"),
    ("second window deleted", delete(5), 6, "step is 125; it must be the previous step 110 + updates 5, 115"),
    ("last window deleted", delete(7), 7, "total.step is 125; it must be 120"),
    ("first window doubled", copy_line(3, to=4), 4, "step is 110"),
    ("second window doubled", copy_line(5, to=6), 6, "step is 120"),
    ("last window doubled", copy_line(7, to=8), 8, "step is 125"),
    ("window doubled at the end", copy_line(5, to=9), 9, "after the session's session_end"),
    ("end doubled", copy_line(8, to=9), 9, "after the session's session_end"),
    ("val after the end", copy_line(4, to=9), 9, "after the session's session_end"),
    ("checkpoint after the end", copy_line(6, to=9), 9, "after the session's session_end"),
    ("end before the last window", swap(7, 8), 7, "total.step is 125"),
    ("end first", lambda lines: lines.insert(2, lines.pop(7)), 3, "total.step is 125"),
    ("windows swapped", swap(3, 5), 3, "step is 120"),
    ("later windows swapped", swap(5, 7), 5, "step is 125"),
    ("end and val swapped", swap(4, 8), 4, "total.step is 125"),
    ("window of another run", on_line(5, b'"run-a"', b'"run-b"'), 5, "run_id is 'run-b'; it must be the manifest's"),
    ("val of another run", on_line(4, b'"run-a"', b'"run-b"'), 4, "run_id"),
    ("end of another run", on_line(8, b'"run-a"', b'"run-b"'), 8, "run_id"),
    ("window filed under the first session", on_line(5, b"0002-bbbb", b"0001-aaaa"), 7, "step is 125"),
    ("window of an unknown session", on_line(3, b"0002-bbbb", b"0003-cccc"), 5, "step is 120"),
    ("window renamed", on_line(5, b'"train"', b'"Train"'), 7, "step is 125"),
    ("end renamed to a window", on_line(8, b'"session_end"', b'"train"'), 8, "updates is missing"),
    ("updates and skipped swapped", on_line(7, b'"updates": 5, "skipped_updates": 1',
                                            b'"updates": 1, "skipped_updates": 5'), 7,
     "step is 125; it must be the previous step 120 + updates 1"),
    ("tokens and attempts swapped", on_line(7, b'"attempted_updates": 6, "tokens": 384',
                                            b'"attempted_updates": 384, "tokens": 6'), 7, "attempted_updates is 384"),
    ("heads swapped", on_line(7, b'"clipped_head_updates": 3, "observed_head_updates": 20',
                              b'"clipped_head_updates": 20, "observed_head_updates": 3'), 7, "at most"),
    ("total's parts swapped", on_line(7, b'"step": 125, "tokens": 8320', b'"step": 8320, "tokens": 125'), 7,
     "total.step"),
    ("end at another step than its total", on_line(8, b'"step": 125', b'"step": 124'), 8, "total.step, 125"),
    ("zero updates", on_line(7, b'"updates": 5', b'"updates": 0'), 7, "at least 1"),
]  # fmt: skip

SPACE = "JSON allows white space there"
SHORTER = "what is left is the log of a run that has not ended yet"

# (what is done, how, what may change in the summary, the reason)
HARMLESS: list[tuple[str, Change, set[str], str]] = [
    ("CRLF line ends", lambda lines: lines.__setitem__(slice(None), [x[:-1] + b"\r\n" for x in lines]), set(), SPACE),
    ("spaces around a record", on_line(5, b"{", b" \t{"), set(), SPACE),
    ("spaces before the newline", on_line(5, b"\n", b"  \r\n"), set(), SPACE),
    ("keys in another order", lambda lines: lines.__setitem__(
        4, json.dumps(json.loads(lines[4]), sort_keys=True).encode() + b"\n"), set(), "objects have no order"),
    ("compact separators", lambda lines: lines.__setitem__(
        4, json.dumps(json.loads(lines[4]), separators=(",", ":")).encode() + b"\n"), set(), SPACE),
    ("slash escaped", on_line(6, b"checkpoints/", b"checkpoints\\/"), set(), "an escape of the same character"),
    ("name escaped", on_line(5, b'"train"', b'"tr\\u0061in"'), set(), "an escape of the same character"),
    ("U+2028 in a string", on_line(6, b"checkpoints/", "check\u2028points/".encode()), set(),
     "lines end at newline bytes alone, and the path is not read"),
    ("U+0085 in a string", on_line(6, b"checkpoints/", "check\x85points/".encode()), set(), "as U+2028"),
    ("lone surrogate, escaped", on_line(6, b"checkpoints/", b"\\ud800/"), set(), "the path is not read"),
    ("unknown key", on_line(5, b'"event"', b'"supervised_tokens": 7, "event"'), set(), "a reader ignores unknown keys"),
    ("unknown key with a colon", on_line(5, b'"event"', b'"note": "a: b", "event"'), set(), "as above"),
    ("unknown key with an object", on_line(5, b'"event"', b'"more": {"a": {"b": 1}}, "event"'), set(), "as above"),
    ("unknown huge number", on_line(5, b'"event"', b'"more": 1e999, "event"'), set(), "as above; the number is JSON"),
    ("line of exactly 8 MiB", padded(LIMIT), set(), "the limit is kept"),
    ("line of a session that no manifest names", put(1, b'{"session_id": "stranger"}\n'), set(),
     "only the last session counts; --all-sessions refuses it"),
    ("first session deleted", lambda lines: lines.__delitem__(slice(0, 2)), set(), "only the last session counts"),
    ("first session moved to the end", lambda lines: lines.extend([lines.pop(0), lines.pop(0)]), set(),
     "only the last session counts; --all-sessions refuses it"),
    ("line of the first session doubled", copy_line(1, to=2), set(), "only the last session counts"),
    ("first session's line within the last", copy_line(1, to=6), set(), "as above"),
    ("val doubled", copy_line(4, to=5), set(), "a val enters no sum, and its memory no other peak"),
    ("val before its window", swap(3, 4), set(), "events carry no order of their own; windows do"),
    ("val and checkpoint swapped", swap(4, 6), set(), "as above"),
    ("checkpoint before the window", swap(5, 6), set(), "as above"),
    ("val deleted", delete(4), {"memory"}, "nothing says how often a run validates; it takes its memory peak along"),
    ("checkpoint deleted", delete(6), {"memory"}, "as for a val"),
    ("end deleted", delete(8), {"completed", "session_wall_tokens_per_second", "profiled"}, SHORTER),
    ("end renamed", on_line(8, b'"session_end"', b'"my_end"'), {"completed"}, SHORTER),
    ("end and last window deleted", lambda lines: lines.__delitem__(slice(6, 8)), {
        "completed", "session_wall_tokens_per_second", "profiled", "last_step", "updates", "tokens", "skipped_updates",
        "last_loss", "nonfinite_gradient_norms", "qk_clip",
        "steady_train_tokens_per_second"}, SHORTER),
    ("threshold as an integer", on_line(5, b'"threshold": 50.0', b'"threshold": 50'), set(), "the same number"),
    ("loss as an integer", on_line(5, b'"loss": 3.0', b'"loss": 3'), set(), "the same number"),
    ("norm as negative zero", on_line(5, b'"grad_norm": 1.0', b'"grad_norm": -0.0'), set(), "equal to zero; unused"),
    ("mean norm above the maximum", on_line(5, b'"grad_norm": 1.0', b'"grad_norm": 99.0'), set(),
     "unused, and a mean in fp32 may pass the maximum by a rounding"),
    ("time running backwards", on_line(5, b'"time": 1796029200.5', b'"time": 1.0'), set(),
     "the clocks of nodes differ; no figure uses it"),
]  # fmt: skip


@pytest.mark.parametrize(("change", "line", "word"), [pytest.param(*case[1:], id=case[0]) for case in REFUSED])
def test_a_corrupted_line_is_refused_by_its_number(run, tmp_path, change, line, word):
    lines = run.lines()
    change(lines)
    with pytest.raises(InvalidRun) as refused:
        summarize(run.write(tmp_path, raw_log=b"".join(lines)))
    assert str(refused.value).startswith(f"metrics.jsonl line {line}: ")
    assert word in str(refused.value)
    assert (refused.value.file, refused.value.line) == ("metrics.jsonl", line)


@pytest.mark.parametrize(
    ("change", "changed", "reason"), [pytest.param(*case[1:], id=f"{case[0]}: {case[3]}") for case in HARMLESS]
)
def test_a_harmless_corruption_leaves_the_summary_as_it_was(run, tmp_path, change, changed, reason):
    whole = summarize(run.write(tmp_path / "whole"))
    lines = run.lines()
    before = b"".join(lines)
    change(lines)
    assert b"".join(lines) != before
    found = summarize(run.write(tmp_path / "changed", raw_log=b"".join(lines)))
    assert {key for key in whole if found[key] != whole[key]} == changed


def test_a_log_cut_at_any_byte_of_its_last_line_is_refused_as_an_uncommitted_tail(run, tmp_path):
    log = run.write(tmp_path) / "metrics.jsonl"
    whole, last = log.stat().st_size, len(run.lines()[-1])
    for size in range(whole - 1, whole - last, -1):
        os.truncate(log, size)
        with pytest.raises(InvalidRun, match=r"^metrics.jsonl line 8: uncommitted tail: "):
            summarize(tmp_path)
    os.truncate(log, whole - last)
    assert not summarize(tmp_path)["completed"]


def test_a_torn_tail_of_another_session_is_refused_too(run, tmp_path):
    with pytest.raises(InvalidRun, match="line 9: uncommitted tail"):
        summarize(run.write(tmp_path, raw_log=b"".join(run.lines()) + b'{"session_id": "0001-aaaa"}'))


def test_a_session_without_a_window_is_refused(run, tmp_path):
    """An end, a val and a checkpoint make no evidence of training."""
    ends = [{**run.records[7], "step": 100, "total": {"step": 100, "tokens": 6528, "skipped_updates": 2}}]
    for kept in ([], run.records[3:4], ends):
        run.records = run.records[:2] + kept
        with pytest.raises(InvalidRun, match=r"^metrics.jsonl: session '0002-bbbb' has no train record$"):
            summarize(run.write(tmp_path))


def test_an_empty_log_is_refused(run, tmp_path):
    with pytest.raises(InvalidRun, match="no train record"):
        summarize(run.write(tmp_path, raw_log=b""))


def test_each_table_counts_towards_the_150_corruptions():
    assert len(REFUSED) + len(HARMLESS) >= 120
