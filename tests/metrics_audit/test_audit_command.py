"""The audit as a command: its words, exit statuses and formats, in the three places where it can be called."""

import json
import os
import runpy
import subprocess
import sys
from pathlib import Path
from xml.etree import ElementTree

import pytest

from trainwright.metrics_audit.__main__ import main

CHECKOUT = Path(__file__).resolve().parents[2]
SCRIPT = CHECKOUT / "apps" / "login" / "summarize_training_run.py"


@pytest.fixture
def directory(run, tmp_path):
    return run.write(tmp_path / "run")


def call(capsys, *words) -> tuple[int, str, str]:
    status = main([str(word) for word in words])
    captured = capsys.readouterr()
    return status, captured.out, captured.err


def test_success_prints_the_summary_as_indented_json_and_nothing_else(capsys, directory):
    status, out, err = call(capsys, directory)
    assert (status, err) == (0, "")
    assert json.loads(out)["last_step"] == 125
    assert out.startswith('{\n  "run_id": "run-a",\n')
    assert out.endswith("\n}\n")


def test_a_refusal_is_one_sentence_on_stderr_and_status_1(capsys, run, directory):
    run.records[4]["loss"] = float("nan")
    run.write(directory)
    assert call(capsys, directory) == (
        1,
        "",
        "Invalid training run: metrics.jsonl line 5: no strict JSON: NaN is no number of JSON\n",
    )


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["--expect-step", "124"], "a session_end is expected at step 124, but the session ended at step 125"),
        (["--expect-step", "-1"], "expect_step is -1; it must be an integer of at least 0"),
        (["--after-step=-5"], "after_step is -5; it must be an integer of at least 0"),
        (["--min-tokens-per-second", "300"],
         "the steady rate in tokens/s is 298.667, less than 300 (--min-tokens-per-second)"),
        (["--min-tokens-per-second", "1", "--after-step", "121"],
         "the steady rate in tokens/s is not measured: no window starts at or after the warm-up step"
         " (--min-tokens-per-second 1)"),
        (["--max-loss", "2.4"], "the last loss is 2.5, more than 2.4 (--max-loss)"),
        (["--max-skipped-fraction", "0.1"],
         "the fraction of skipped updates is 0.107143, more than 0.1 (--max-skipped-fraction)"),  # 3 of 28
        (["--max-clipped-fraction", "0.19"],
         "the fraction of clipped updates is 0.2, more than 0.19 (--max-clipped-fraction)"),
        (["--max-loss", "1", "--max-clipped-fraction", "0"],
         "the last loss is 2.5, more than 1 (--max-loss); the fraction of clipped updates is 0.2, more than 0"
         " (--max-clipped-fraction)"),
    ],
)  # fmt: skip
@pytest.mark.parametrize("more", [[], ["--all-sessions"]], ids=["last", "all"])
def test_steps_and_bounds_refuse_with_the_measured_value(capsys, directory, words, sentence, more):
    status, out, err = call(capsys, directory, *words, *more)
    assert (status, out) == (1, "")
    assert err.removeprefix("Invalid training run: ").removeprefix("metrics.jsonl: ") == f"{sentence}\n"


def test_bounds_that_are_kept_change_nothing(capsys, directory):
    bounds = ["--min-tokens-per-second", "298.6", "--max-loss", "2.5", "--max-skipped-fraction", "0.1072"]
    words = [*bounds, "--max-clipped-fraction", "0.2001", "--expect-step", "125"]
    assert call(capsys, directory, *words) == call(capsys, directory)


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        ([], "the following arguments are required: run_directory"),
        (["run", "--after-step", "x"], "argument --after-step: 'x' is no integer"),
        (["run", "--after-step", "1.5"], "argument --after-step: '1.5' is no integer"),
        (["run", "--expect-step", ""], "argument --expect-step: '' is no integer"),
        (["run", "--expect-step", "9" * 5000], "argument --expect-step: '9999"),
        (["run", "--expect-step"], "argument --expect-step: expected one argument"),
        (["run", "--max-loss", "nan"], "argument --max-loss: 'nan' is no finite number"),
        (["run", "--max-loss", "inf"], "argument --max-loss: 'inf' is no finite number"),
        (["run", "--max-loss", "low"], "argument --max-loss: 'low' is no finite number"),
        (["run", "--min-tokens-per-second", "-1"], "argument --min-tokens-per-second: -1 is negative"),
        (["run", "--max-skipped-fraction", "5"], "argument --max-skipped-fraction: 5 is not from 0 to 1"),
        (["run", "--max-clipped-fraction", "-0.1"], "argument --max-clipped-fraction: -0.1 is not from 0 to 1"),
        (["run", "--format", "xml"], "argument --format: invalid choice: 'xml'"),
        (["run", "--expect-steps", "5"], "unrecognized arguments: --expect-steps 5 (did you mean --expect-step?)"),
        (["run", "--expect", "5"], "unrecognized arguments: --expect 5 (did you mean --expect-step?)"),
        (["run", "another"], "unrecognized arguments: another"),
        (["schema", "evaluation"], "argument name: invalid choice: 'evaluation'"),
    ],
)
def test_a_usage_error_is_one_line_and_status_2(capsys, words, sentence):
    status, out, err = call(capsys, *words)
    assert (status, out) == (2, "")
    assert sentence in err
    assert err.endswith("; see --help\n")
    assert err.count("\n") == 1


def test_help_names_every_flag(capsys):
    status, out, _ = call(capsys, "--help")
    assert status == 0
    seed = {"--after-step", "--expect-step"}
    bounds = {"--min-tokens-per-second", "--max-loss", "--max-skipped-fraction", "--max-clipped-fraction"}
    for flag in seed | bounds | {"--all-sessions", "--follow", "--format"}:
        assert flag in out


def test_all_sessions_prints_a_list_and_totals(capsys, directory):
    status, out, _ = call(capsys, directory, "--all-sessions")
    assert status == 0
    document = json.loads(out)
    assert list(document) == ["run_id", "sessions", "passed_over", "totals"]
    assert [summary["updates"] for summary in document["sessions"]] == [100, 25]


def test_text_is_a_table_for_a_person(capsys, directory):
    status, out, _ = call(capsys, directory, "--format", "text")
    assert status == 0
    rows = {line[:22].strip(): line[22:] for line in out.splitlines()}
    assert rows["steps"] == "100 to 125, completed"
    assert rows["updates"] == "25, and 3 skipped"
    assert rows["tokens"] == "1,792"
    assert rows["loss"] == "4 to 2.5"
    assert rows["clipped updates"] == "20.00%"
    assert rows["steady rate"] == "298.667 tokens/s in training alone"
    assert rows["session rate"] == "256 tokens/s of wall time"
    assert rows["peak memory"] == "900 bytes allocated, 1,500 reserved"


def test_text_of_all_sessions_has_a_row_each(capsys, run, directory):
    run.records = run.records[:2]
    run.write(directory)
    status, out, _ = call(capsys, directory, "--format", "text", "--all-sessions")
    assert status == 0
    rows = {line[:22].strip(): line[22:] for line in out.splitlines()}
    assert rows["0001-aaaa"].startswith("hand_made: steps 0 to 100, no session_end, loss 5")
    assert rows["0002-bbbb"] == "passed over: the session has no train record"
    assert rows["restarts"] == "1"
    assert rows["tokens trained"] == "6,528"


def test_github_annotates_the_line(capsys, run, directory):
    status, out, _ = call(capsys, directory, "--format", "github")
    assert status == 0
    assert out == (
        "::notice title=Training run accepted::hand_made: steps 100 to 125, completed, loss 2.5, 298.667 tokens/s\n"
    )
    del run.records[3]["loss"]
    run.write(directory)
    status, out, err = call(capsys, directory, "--format", "github")
    assert status == 1
    assert out == (
        f"::error title=Training run refused,file={directory}/metrics.jsonl,line=4::"
        "metrics.jsonl line 4: loss is missing; it must be a finite number\n"
    )
    assert err.startswith("Invalid training run: ")


def test_github_annotates_each_bound(capsys, directory):
    words = ["--format", "github", "--max-loss", "1", "--max-clipped-fraction", "0.1", "--max-skipped-fraction", "1"]
    status, out, _ = call(capsys, directory, *words)
    assert status == 1
    assert [line.partition("::the ")[2][:9] for line in out.splitlines()] == ["last loss", "fraction "]


def test_github_escapes_what_would_be_another_command(capsys, run, tmp_path):
    directory = run.write(tmp_path / "100%, a:b\n::stop")
    run.manifest["run_id"] = "x\n::set-output name=a::b"
    run.write(directory)
    status, out, _ = call(capsys, directory, "--format", "github")
    assert status == 1
    assert out.count("\n") == 1
    assert "100%25%2C a%3Ab%0A%3A%3Astop/metrics.jsonl,line=3::" in out


def test_junit_has_a_case_for_the_log_and_for_each_bound(capsys, directory):
    words = ["--format", "junit", "--max-loss", "1", "--max-clipped-fraction", "0.5"]
    status, out, _ = call(capsys, directory, *words)
    suite = ElementTree.fromstring(out)
    assert status == 1
    assert (suite.tag, suite.get("tests"), suite.get("failures")) == ("testsuite", "3", "1")
    cases = {case.get("name"): case.find("failure") for case in suite.iter("testcase")}
    assert list(cases) == ["session log", "--max-loss", "--max-clipped-fraction"]
    assert cases["--max-loss"].get("message") == "the last loss is 2.5, more than 1 (--max-loss)"
    assert cases["session log"] is None
    assert json.loads(suite.find("system-out").text)["last_step"] == 125


def test_junit_of_a_refused_log_is_well_formed_whatever_the_log_holds(capsys, run, tmp_path):
    run.records[4]["run_id"] = "<&>\x00\ud800]]>"
    directory = run.write(tmp_path / "ruñ <&>")
    status, out, _ = call(capsys, directory, "--format", "junit")
    suite = ElementTree.fromstring(out)
    assert status == 1
    assert "metrics.jsonl line 5: run_id is " in suite.find("testcase/failure").get("message")
    assert suite.find("system-out") is None


@pytest.mark.parametrize("style", ["json", "text", "github", "junit"])
def test_every_format_is_ascii_and_survives_an_odd_locale(run, tmp_path, style):
    run.manifest["sessions"][1]["recipe"]["name"] = "nämé\u2028\ud800\x1b[31m"
    run.write(tmp_path)
    environment = os.environ | {"PYTHONIOENCODING": "ascii:strict", "LC_ALL": "C"}
    words = [sys.executable, "-m", "trainwright.metrics_audit", tmp_path, "--format", style]
    ran = subprocess.run(words, capture_output=True, env=environment, check=True)
    assert ran.stdout.isascii()
    assert b"\x1b" not in ran.stdout


def test_the_script_needs_no_installed_package_and_runs_from_anywhere(directory, tmp_path):
    """`python -S` with an empty environment, started in another directory, with a relative path."""
    words = [sys.executable, "-S", SCRIPT, "run", "--after-step", "111", "--expect-step", "125"]
    ran = subprocess.run(words, cwd=tmp_path, env={}, capture_output=True, text=True)
    assert (ran.returncode, ran.stderr) == (0, "")
    assert json.loads(ran.stdout)["steady_train_tokens_per_second"] == 384.0
    refused = subprocess.run(
        [*words[:4], "--expect-step", "2000"], cwd=tmp_path, env={}, capture_output=True, text=True
    )
    assert refused.returncode == 1
    assert refused.stderr.startswith("Invalid training run: ")
    usage = subprocess.run([*words[:4], "--nothing"], cwd=tmp_path, env={}, capture_output=True, text=True)
    assert usage.returncode == 2
    assert usage.stderr.startswith("summarize_training_run.py: ")


def test_the_script_is_no_copy():
    """It holds no logic of its own."""
    assert "json" not in SCRIPT.read_text()


def test_the_module_runs_as_a_program(directory):
    words = [sys.executable, "-m", "trainwright.metrics_audit", directory]
    ran = subprocess.run(words, capture_output=True, text=True, check=True)
    assert json.loads(ran.stdout)["run_id"] == "run-a"


@pytest.mark.parametrize("words", [["-S", str(SCRIPT)], ["-S", "-c"]], ids=["script", "module"])
def test_nothing_beyond_the_standard_library_is_imported(directory, words):
    """Read off -X importtime; under -S there are no other packages to hide behind."""
    if words[-1] == "-c":
        source = CHECKOUT / "packages" / "metrics-audit" / "src"
        run_module = "import runpy; runpy.run_module('trainwright.metrics_audit', run_name='__main__')"
        words = [*words, f"import sys; sys.path.insert(0, {str(source)!r}); {run_module}"]
    ran = subprocess.run(
        [sys.executable, "-X", "importtime", *words, directory], capture_output=True, text=True, check=True
    )
    imported = [line.rpartition("|")[2].strip() for line in ran.stderr.splitlines() if line.startswith("import time:")]
    foreign = {name for name in imported[1:] if name.partition(".")[0] not in sys.stdlib_module_names}
    assert foreign <= {
        name for name in foreign if name == "trainwright" or name.startswith("trainwright.metrics_audit")
    }
    assert "trainwright.metrics_audit.session" in imported
    assert "trainwright.metrics_audit.writer" not in imported, "the audit shares no code with what it audits"


def test_the_login_app_hands_its_words_over(capsys, directory):
    """Loaded from its file: the app itself may not be installed where only this package is tested."""
    run_audit = runpy.run_path(str(CHECKOUT / "apps/login/src/trainwright_login/audit.py"))["run"]
    assert run_audit([str(directory), "--expect-step", "125"]) == 0
    assert json.loads(capsys.readouterr().out)["completed"] is True
    assert run_audit([str(directory), "--expect-stop", "125"]) == 2
    assert capsys.readouterr().err.startswith("trainwright audit: unrecognized arguments")


def test_a_directory_called_schema_can_still_be_audited(capsys, run, tmp_path, monkeypatch):
    run.write(tmp_path / "schema")
    monkeypatch.chdir(tmp_path)
    assert call(capsys, "./schema")[0] == 0
    assert "$defs" in json.loads(call(capsys, "schema")[1])["train"]
