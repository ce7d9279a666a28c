"""The files of a run directory: what is missing, unreadable or no manifest is refused in one sentence."""

import json

import pytest

from trainwright.metrics_audit.audit import InvalidRun, summarize


def refusal(directory) -> str:
    with pytest.raises(InvalidRun) as refused:
        summarize(directory)
    assert "\n" not in str(refused.value)
    return str(refused.value)


@pytest.mark.parametrize("name", ["run.json", "metrics.jsonl"])
def test_a_missing_file_is_named(run, tmp_path, name):
    run.write(tmp_path)
    (tmp_path / name).unlink()
    assert refusal(tmp_path) == f"{str(tmp_path)!r} holds no {name}"


def test_a_missing_directory_is_named(tmp_path):
    assert refusal(tmp_path / "nowhere") == f"{str(tmp_path / 'nowhere')!r} holds no run.json"


def test_a_file_in_place_of_the_directory_is_refused(tmp_path):
    (tmp_path / "run").write_text("")
    assert "holds no run.json" in refusal(tmp_path / "run")


@pytest.mark.parametrize("name", ["run.json", "metrics.jsonl"])
def test_a_directory_in_place_of_a_file_is_unreadable(run, tmp_path, name):
    run.write(tmp_path)
    (tmp_path / name).unlink()
    (tmp_path / name).mkdir()
    assert refusal(tmp_path) == f"{name}: cannot be read: Is a directory"


@pytest.mark.parametrize("name", ["run.json", "metrics.jsonl"])
def test_a_dangling_link_is_unreadable(run, tmp_path, name):
    run.write(tmp_path)
    (tmp_path / name).unlink()
    (tmp_path / name).symlink_to("gone")
    assert refusal(tmp_path) == f"{name}: cannot be read: No such file or directory"


@pytest.mark.parametrize(
    ("raw", "words"),
    [
        (b"", "strict JSON"),
        (b"  \n", "strict JSON"),
        (b"null", "null; it must be a JSON object"),
        (b"[]", "a list; it must be a JSON object"),
        (b'"run"', "'run'; it must be a JSON object"),
        (b"{", "strict JSON"),
        (b"{} {}", "follows"),
        (b"{'a': 1}", "strict JSON"),
        (b'{"a": 1,}', "strict JSON"),
        (b'{"a": 1} // note', "follows"),
        (b"\xef\xbb\xbf{}", "byte-order mark"),
        (b'{"a": "\xff"}', "UTF-8"),
        ("{}".encode("utf-16"), "UTF-8"),
        (b"[" * 100_000, "nested"),
        (b'{"a": NaN}', "NaN"),
        (b'{"a": -Infinity}', "-Infinity"),
        (b'{"a": ' + b"9" * 5000 + b"}", "digits"),
        (b'{"a": 1, "a": 2}', "twice"),
        (b"{}", "schema_version"),
        (b'{"schema_version": 1}', "run_id"),
    ],
)
def test_a_manifest_that_is_no_strict_json_object_is_refused(run, tmp_path, raw, words):
    sentence = refusal(run.write(tmp_path, raw_manifest=raw))
    assert sentence.startswith("run.json: ")
    assert words in sentence


def test_a_number_too_large_for_a_double_is_refused_even_where_it_is_only_repeated(run, tmp_path):
    """The summary repeats the recipe, and must stay strict JSON."""
    raw = json.dumps(run.manifest).replace('"a key more"', "1e999").encode()
    assert "1e999 is too large" in refusal(run.write(tmp_path, raw_manifest=raw))


def test_two_sessions_of_one_id_are_refused(run, tmp_path):
    run.manifest["sessions"][0]["session_id"] = "0002-bbbb"
    assert refusal(run.write(tmp_path)) == "run.json: sessions[1] and sessions[0] share the id '0002-bbbb'"


def test_earlier_sessions_of_the_manifest_are_not_judged(run, tmp_path):
    run.manifest["sessions"][0] = {"session_id": 5}
    assert summarize(run.write(tmp_path))["sessions"] == 2


def test_unknown_keys_of_the_manifest_are_kept(run, tmp_path):
    run.manifest["sessions"][1]["hardware"]["gpu"] = "H100"
    run.manifest["comment"] = {"free": True}
    assert summarize(run.write(tmp_path))["hardware"] == {"device": "cpu", "world_size": 2, "nodes": 1, "gpu": "H100"}
