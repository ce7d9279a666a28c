"""Reading and writing reports: strict, whole, and nothing lost."""

import json
import math
import os
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import BaseModel
from tests.report_schema.sample_report import sample, step

from trainwright.report_schema import (
    MetricStats,
    ReportError,
    StepAggregation,
    TrainingConfig,
    TrainingResults,
    TrainingStep,
    read_diagnostics,
    read_report,
    write_report,
)

FINITE = st.floats(allow_nan=False, allow_infinity=False)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | FINITE | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)
BY_TYPE: dict[Any, st.SearchStrategy[Any]] = {
    str: st.text(),
    int: st.integers(),
    float: FINITE,
    bool: st.booleans(),
    list[str]: st.lists(st.text(), max_size=3),
    dict[str, Any]: st.dictionaries(st.text(), JSON, max_size=4),
    int | None: st.none() | st.integers(),
    float | None: st.none() | FINITE,
    bool | None: st.none() | st.booleans(),
    str | None: st.none() | st.text(),
}


def documents(model: type[BaseModel], **given_fields: st.SearchStrategy[Any]) -> st.SearchStrategy[dict[str, Any]]:
    """Any document of a model, with fields it does not know now and then."""
    fields = {
        name: given_fields[name] if name in given_fields else BY_TYPE[field.annotation]
        for name, field in model.model_fields.items()
    }
    unknown = st.dictionaries(st.text(min_size=1).filter(lambda name: name not in fields), JSON, max_size=2)
    return st.tuples(st.fixed_dictionaries(fields), unknown).map(lambda pair: {**pair[0], **pair[1]})


STATISTICS = documents(MetricStats)
REPORTS = documents(
    TrainingResults,
    schema_version=st.sampled_from(["1.0", "1.7", "1.10"]),
    config=documents(TrainingConfig),
    steps=st.lists(documents(TrainingStep), max_size=3),
    aggregation=st.none()
    | documents(
        StepAggregation,
        **{name: STATISTICS for name in StepAggregation.model_fields if name != "tflops_per_gpu"},
        tflops_per_gpu=st.none() | STATISTICS,
    ),
)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "training_report.json"


@settings(max_examples=60, deadline=None)
@given(document=REPORTS)
def test_any_report_round_trips(tmp_path_factory: pytest.TempPathFactory, document: dict[str, Any]) -> None:
    """Read, written and read again, every field, float and unknown key is as it was, at any depth."""
    source = tmp_path_factory.getbasetemp() / "any-report.json"
    source.write_text(json.dumps(document))
    report = read_report(source)
    write_report(source, report)
    assert json.loads(source.read_text()) == document
    assert read_report(source) == report


def paths_to_leaves(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    if isinstance(value, dict) and "depth" not in value and value:
        return [found for key, inner in value.items() for found in paths_to_leaves(inner, (*path, key))]
    if isinstance(value, list) and value:
        return [found for index, inner in enumerate(value) for found in paths_to_leaves(inner, (*path, index))]
    return [path]


LEAVES = [leaf for leaf in paths_to_leaves(sample()) if "env_vars" not in leaf]


@settings(max_examples=200, deadline=None)
@given(leaf=st.sampled_from(LEAVES), wrong=st.sampled_from([[], {}, "text", 1.5, -3, True, None, [{}]]))
def test_wrong_field_is_refused_by_its_path(
    tmp_path_factory: pytest.TempPathFactory, leaf: tuple[Any, ...], wrong: Any
) -> None:
    """A field of the wrong type, anywhere, is named; one of a type that fits is read."""
    document = sample()
    holder: Any = document
    for key in leaf[:-1]:
        holder = holder[key]
    right = type(holder[leaf[-1]])
    holder[leaf[-1]] = wrong
    source = tmp_path_factory.getbasetemp() / "wrong-report.json"
    source.write_text(json.dumps(document))
    fits = type(wrong) is right or (right is float and type(wrong) is int)
    where = "".join(f"[{key}]" if isinstance(key, int) else f".{key}" for key in leaf).removeprefix(".")
    try:
        read_report(source)
    except ReportError as error:
        assert not fits or leaf == ("schema_version",)
        assert f"{source}: {where}" in str(error) and "\n" not in str(error)
    else:
        assert fits or right is type(None) or wrong is None


@pytest.mark.parametrize("missing", [leaf for leaf in LEAVES if len(leaf) > 1 and not isinstance(leaf[-1], int)])
def test_missing_field_is_refused_by_its_path(path: Path, missing: tuple[Any, ...]) -> None:
    """Every field without a default must be there."""
    document = sample()
    holder: Any = document
    for key in missing[:-1]:
        holder = holder[key]
    del holder[missing[-1]]
    path.write_text(json.dumps(document))
    if missing[-1] == "tflops_per_gpu":
        read_report(path)
        return
    with pytest.raises(ReportError, match=rf"{missing[-1]}: field required"):
        read_report(path)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "not JSON at line 1, column 1"),
        ("{", "not JSON at line 1, column 2"),
        ("[]", "$: expected an object, got list"),
        ("null", "$: expected an object, got NoneType"),
        ("{} {}", "not JSON at line 1, column 4: Extra data"),
        ('{"a": 1, "a": 2}', "the key 'a' is given twice"),
        ('{"a": NaN}', "NaN is not a JSON number"),
        ('{"a": -Infinity}', "-Infinity is not a JSON number"),
        ('{"a": 1e999}', "1e999 is larger than any float"),
        ("[" * 100_000, "nested too deeply"),
        ('{"a": %s}' % ("9" * 5000), "not strict JSON"),
        ("{}", "schema_version: missing (a report written before 1.0 is read by read_old_report)"),
        ('{"schema_version": "1.0"}', "config: field required (and 1 more)"),
    ],
)
def test_what_is_no_report_is_refused_in_one_line(path: Path, text: str, message: str) -> None:
    """Any other text, each with its reason."""
    path.write_text(text)
    with pytest.raises(ReportError) as caught:
        read_report(path)
    assert str(caught.value).startswith(f"{path}: ") and message in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("data", "message"),
    [(b"\xff\xfe{\x00}\x00", "encoded as UTF-16"), (b'{"a": "\xe9"}', "not UTF-8 at byte 7")],
)
def test_other_encodings_are_named(path: Path, data: bytes, message: str) -> None:
    """Not a decoding error's traceback."""
    path.write_bytes(data)
    with pytest.raises(ReportError, match=message):
        read_report(path)


def test_byte_order_mark_is_passed_over(path: Path) -> None:
    """Some editors write one."""
    path.write_text(json.dumps(sample()), encoding="utf-8-sig")
    assert read_report(path).config.num_layers == 32


def test_missing_file_is_named(tmp_path: Path) -> None:
    """With the system's reason."""
    with pytest.raises(ReportError, match=r"nowhere\.json: No such file or directory"):
        read_report(tmp_path / "nowhere.json")


@pytest.mark.parametrize("version", ["2.0", "0.9", "10.0"])
def test_unsupported_major_version_is_refused(path: Path, version: str) -> None:
    """The error names the version and what is supported."""
    path.write_text(json.dumps({**sample(), "schema_version": version}))
    with pytest.raises(ReportError, match=rf"schema_version: '{version}' is not supported: only major version 1"):
        read_report(path)


@pytest.mark.parametrize("version", ["1", "1.0.0", "v1.0", "1.00", "01.0", "", 1.0, None, "1.x"])
def test_version_has_one_form(path: Path, version: Any) -> None:
    """MAJOR.MINOR, as text."""
    path.write_text(json.dumps({**sample(), "schema_version": version}))
    with pytest.raises(ReportError, match="schema_version: expected"):
        read_report(path)


def test_newer_minor_version_keeps_what_it_adds(path: Path) -> None:
    """Unknown fields at every depth, and the version, are written back."""
    document = {**sample(), "schema_version": "1.4", "status": {"done": True}}
    document["config"]["new"] = [1]
    document["steps"][0]["tokens"] = 12
    document["aggregation"]["loss"]["t50"] = 0.9
    path.write_text(json.dumps(document))
    write_report(path, read_report(path))
    written = json.loads(path.read_text())
    assert written["schema_version"] == "1.4" and written["status"] == {"done": True}
    assert (written["config"]["new"], written["steps"][0]["tokens"]) == ([1], 12)
    assert written["aggregation"]["loss"]["t50"] == 0.9


def test_keys_are_written_in_the_order_of_the_schema(path: Path) -> None:
    """Whatever order they were read in; the text is the same each time."""
    document = sample()
    path.write_text(json.dumps(document, sort_keys=True))
    write_report(path, read_report(path))
    text = path.read_text()
    assert list(json.loads(text)) == ["schema_version", "config", "steps", "aggregation"]
    assert list(json.loads(text)["config"])[:2] == ["test_id", "test_name"]
    write_report(path, read_report(path))
    assert path.read_text() == text


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda report: setattr(report.steps[1], "loss", math.nan), r"steps\[1\].loss: .*finite"),
        (lambda report: report.steps.append(3), r"steps\[2\]: input should be a valid dictionary"),
        (lambda report: setattr(report, "steps", 3), "steps: input should be a valid list, got 3"),
        (lambda report: report.config.env_vars.update(BAD="\ud800"), "not writable as JSON: .*surrogates"),
        (lambda report: setattr(report.config, "num_layers", "many"), "config.num_layers: .*'many'"),
        (lambda report: report.config.env_vars.update(LIMIT=math.inf), "config.env_vars.LIMIT: inf is not a finite"),
        (lambda report: report.config.env_vars.update(LIST=[1, {2: 3}]), r"env_vars.LIST\[1\]: the key 2 is not"),
        (lambda report: report.config.env_vars.update(SET={1}), "config.env_vars.SET: set cannot be written"),
        (lambda report: setattr(report, "schema_version", "2.0"), "schema_version: '2.0' is not supported"),
    ],
)
def test_what_cannot_be_written_leaves_the_file_alone(path: Path, change: Any, message: str) -> None:
    """The field is named; the old file stays, and no scratch file."""
    report = TrainingResults(**sample())
    write_report(path, report)
    before = path.read_bytes()
    change(report)
    with pytest.raises(ReportError, match=message):
        write_report(path, report)
    assert path.read_bytes() == before and os.listdir(path.parent) == [path.name]


def test_failed_write_leaves_nothing(tmp_path: Path) -> None:
    """A directory stands where the file should: one line, no scratch file."""
    (tmp_path / "training_report.json").mkdir()
    with pytest.raises(ReportError, match="cannot be written"):
        write_report(tmp_path / "training_report.json", TrainingResults(**sample()))
    assert os.listdir(tmp_path) == ["training_report.json"]


def test_diagnostics_are_strict_too(tmp_path: Path) -> None:
    """Their reader names the field as well."""
    path = tmp_path / "training_report.diagnostics.json"
    path.write_text('{"workload": 3}')
    with pytest.raises(ReportError, match="workload: input should be a valid string"):
        read_diagnostics(path)


def test_step_helper_is_a_valid_step() -> None:
    """The sample of these tests is itself a report."""
    assert TrainingStep(**step(3)).iteration == 3
