"""What `trainwright report` prints, writes and refuses."""

import json
import math
import os
import re
import shutil
import subprocess
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path

import pytest
from tests.report_schema.framework_runs import megatron_restart_run
from tests.report_schema.own_runs import make_run, points

from trainwright_login import report
from trainwright_login.report_show import sparkline


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run with a restart and a loss that was not finite, and its report."""
    directory = tmp_path_factory.mktemp("runs") / "restarted"
    logged = points(range(1, 31)), points(range(26, 61), losses={40: math.nan, 41: math.inf})
    assert report.build(make_run(directory, *logged)) == 0
    return directory


@pytest.fixture(scope="module")
def faster(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The same training, twice as fast."""
    directory = tmp_path_factory.mktemp("runs") / "faster"
    assert report.build(make_run(directory, points(range(1, 61), speed=2.0))) == 0
    return directory


def test_build_says_what_it_saw_and_wrote(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The workload and a summary on stdout, each warning once on stderr."""
    run = megatron_restart_run(tmp_path / "t.dense" / "0")
    assert report.build(run, settings=["num_nodes=1"]) == 0
    out, err = capsys.readouterr()
    assert out.splitlines()[0] == f"read {run} as a megatron-run run: 2 event files"
    assert "99 steps, loss 10.92 to 9.51, 0.3375 s a step over 94 steps (7 to 100)" in out
    assert len(err.splitlines()) == 4 and "--exclude-after-restart 5 removes it" in err


@pytest.mark.parametrize(
    ("call", "status", "says"),
    [
        (lambda path: report.build(path / "nowhere"), 2, "nowhere: no such directory"),
        (lambda path: report.build(path), 1, "no run is recognised"),
        (lambda path: report.build(path, settings=["x"]), 2, "'x': expected FIELD=VALUE"),
        (lambda path: report.show(path), 1, "no training_report.json here (trainwright report build"),
        (lambda path: report.show(path / "nowhere"), 2, "no such file or directory"),
        (lambda path: report.plot(path, path / "x.gif"), 2, "a plot is a .png, .svg or .html file"),
        (lambda path: report.compare(path, path, format="yaml"), 2, "no format 'yaml': one of text, json"),
        (lambda path: report.compare(path, path, max_slowdown="fast"), 2, "'fast': expected a fraction such as 3%"),
        (lambda path: report.table([path], sort_by="x"), 1, "no training_report.json here"),
        (lambda path: report.schema("9.9"), 2, "no schema version '9.9': released are 1.0"),
        (lambda path: report.upgrade(path / "nowhere", path / "new"), 1, "nowhere: No such file or directory"),
    ],
)
def test_what_is_wrong_is_one_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], call, status: int, says: str
) -> None:
    """On stderr, with the right status; nothing is written."""
    assert call(tmp_path) == status
    out, err = capsys.readouterr()
    assert out == "" and err.startswith("trainwright report: ") and says in err
    assert len(err.splitlines()) == 1 and list(tmp_path.iterdir()) == []


def test_show_prints_configuration_steps_statistics_and_warnings(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """On a terminal of eighty columns no table is cut."""
    assert report.show(run) == 0
    out = capsys.readouterr().out
    for words in (
        "vanilla_gpt_pretrain_config",
        "TP 2 + SP",
        "58 steps",
        "s/step",
        "TFLOP/s/device",
        "recipe unchanged: no",
        "  world size: 1 -> 4\n  rng.seed: 1234 -> 7 (override)\n",
    ):
        assert words in out
    assert "warning: 2 iterations (40-41) are not in the report: loss is not finite" in out
    tables = [line for line in out.splitlines() if not line.startswith("warning") and str(run) not in line]
    assert max(map(len, tables)) <= 80 and not any("…" in line and "█" in line for line in tables)


def test_show_takes_the_file_too(run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A report without its run directory has no diagnostics to show."""
    shutil.copy(run / "training_report.json", tmp_path / "saved.json")
    assert report.show(tmp_path / "saved.json") == 0
    assert "warning" not in capsys.readouterr().out


@pytest.mark.parametrize(
    ("values", "bars"), [([], ""), ([1, 1], "▁▁"), ([0, 7], "▁█"), (list(range(8)), "▁▂▃▄▅▆▇█"), ([5], "▁")]
)
def test_sparkline(values: list[float], bars: str) -> None:
    """From the smallest to the largest."""
    assert sparkline(values) == bars


def test_sparkline_of_a_long_run_has_its_width() -> None:
    """Each bar is the mean of a stretch."""
    assert sparkline([i // 500 for i in range(1000)], width=4) == "▁▁██"


def test_compare_exits_by_its_gate(run: Path, faster: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Half as fast is past any gate, twice as fast past none."""
    assert report.compare(faster, run, max_slowdown="3%") == 1
    assert "past the gate: step_time_sec" in capsys.readouterr().err
    assert report.compare(run, faster, max_slowdown="3%", max_memory_growth="2%", format="json") == 0
    assert json.loads(capsys.readouterr().out)["failed"] is False


def test_diverged_run_is_past_any_loss_tolerance(run: Path, faster: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Its finite steps agree, and the others are not in the report: the diagnostics decide."""
    assert report.compare(faster, run, loss_tolerance="50%") == 1
    assert "loss: 2 iterations of the new run are not finite" in capsys.readouterr().out
    assert report.compare(run, faster, loss_tolerance="50%") == 0


def test_table_names_runs_by_their_directories(run: Path, faster: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """One row each, sorted."""
    assert report.table([run, faster], sort_by="s/step", format="csv") == 0
    assert [line.split(",")[0] for line in capsys.readouterr().out.splitlines()] == ["run", "faster", "restarted"]


def test_schema_is_printed_as_released(capsys: pytest.CaptureFixture[str]) -> None:
    """A JSON Schema, by default the newest."""
    assert report.schema() == 0
    assert json.loads(capsys.readouterr().out)["title"] == "TrainingResults"


def test_upgrade_says_what_it_filled(run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The new file is schema 1.0; each gap is a line."""
    document = json.loads((run / "training_report.json").read_text())
    del document["schema_version"], document["config"]["nodes"]
    (tmp_path / "old.json").write_text(json.dumps(document))
    assert report.upgrade(tmp_path / "old.json", tmp_path / "new.json") == 0
    out, err = capsys.readouterr()
    assert out.endswith("2 things filled in\n")
    assert err.splitlines() == [
        "schema_version: missing: taken for 1.0",
        "config.nodes: missing: [], which stands for unknown",
    ]
    assert report.show(tmp_path / "new.json") == 0


def size_of_png(path: Path) -> tuple[int, int]:
    data = path.read_bytes()
    assert data[:8] == b"\x89PNG\r\n\x1a\n"
    return int.from_bytes(data[16:20]), int.from_bytes(data[20:24])


def test_plot_writes_a_picture(run: Path, tmp_path: Path) -> None:
    """Large enough to read."""
    assert report.plot(run, tmp_path / "loss.png") == 0
    width, height = size_of_png(tmp_path / "loss.png")
    assert width >= 1200 and height >= 800


def drawn(*paths: Path):
    from trainwright_login.report_plot import PlottedRun, draw

    return draw([PlottedRun(path.name, *report.load(path)) for path in paths])


def test_plot_has_titles_units_and_legends(run: Path, faster: Path) -> None:
    """Four panels; each run has its entry; excluded and non-finite iterations are marked."""
    loss, time, memory, speed = drawn(run, faster).axes
    assert [axes.get_title() for axes in (loss, time, memory, speed)] == ["Loss", "Step time", "Memory", "Throughput"]
    assert [axes.get_ylabel() for axes in (time, memory, speed)] == ["seconds", "GB (10⁹ bytes)", "TFLOP/s per device"]
    assert all(axes.get_xlabel() == "iteration" for axes in (memory, speed))
    entries = [text.get_text() for text in loss.get_legend().get_texts()]
    assert entries == ["restarted", "restarted: not finite (2)", "faster"]
    assert "restarted: not in the statistics" in [text.get_text() for text in time.get_legend().get_texts()]


def test_plot_draws_what_the_report_holds(run: Path) -> None:
    """The loss curve's points are the report's, and the crosses stand at the iterations that are not."""
    curve, crosses = drawn(run).axes[0].lines
    steps = report.load(run)[0].steps
    assert list(curve.get_xdata()) == [step.iteration for step in steps]
    assert list(curve.get_ydata()) == [step.loss for step in steps]
    assert list(crosses.get_xdata()) == [40, 41]


def test_long_curve_keeps_its_spikes(tmp_path: Path) -> None:
    """A hundred thousand points are thinned to their extremes."""
    from trainwright_login.report_plot import _MAX_POINTS, _thinned

    curve = [(i, 100.0 if i == 54321 else float(i % 10)) for i in range(100_000)]
    thinned = _thinned(curve)
    assert len(thinned) <= _MAX_POINTS + 1 and (54321, 100.0) in thinned
    assert [i for i, _ in thinned] == sorted({i for i, _ in thinned})


class References(HTMLParser):
    """Everything that a page would fetch."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[str] = []

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        """Collect addresses that are not inside the page."""
        self.found += [
            value
            for name, value in attributes
            if name in ("src", "href", "xlink:href") and value and not value.startswith(("#", "data:"))
        ]


@pytest.fixture(scope="module")
def page(run: Path, faster: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """The HTML page of two runs."""
    path = tmp_path_factory.mktemp("page") / "report.html"
    assert report.plot([run, faster], path) == 0
    yield path


def test_page_needs_nothing_from_anywhere(page: Path) -> None:
    """No script, no style sheet, no picture outside of it."""
    references = References()
    references.feed(page.read_text(encoding="utf-8"))
    assert references.found == []
    assert (
        "<script" not in page.read_text() and "@import" not in page.read_text() and "url(http" not in page.read_text()
    )


CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")


@pytest.mark.skipif(CHROMIUM is None and "CI" not in os.environ, reason="needs a Chromium to open the page with")
def test_page_opens_in_a_browser(page: Path, tmp_path: Path) -> None:
    """Headless and offline: legend, titles and units are on the page as text, and the picture is not blank."""
    flags = ["--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars", f"--user-data-dir={tmp_path}/profile"]
    offline = ["--proxy-server=127.0.0.1:9", "--window-size=1280,1000"]
    picture = tmp_path / "page.png"

    def browse(*action: str) -> str:
        command = [str(CHROMIUM), *flags, *offline, *action, page.as_uri()]
        return subprocess.run(command, check=True, capture_output=True, text=True, timeout=120).stdout

    dom = re.sub(r"\s+", " ", browse("--dump-dom"))
    titles = ("Loss", "Step time", "Memory", "Throughput")
    for words in (*titles, "seconds", "TFLOP/s per device", "iteration", "restarted: not finite (2)", "faster"):
        assert f">{words}</text>" in dom
    assert "restarted: 2 iterations (40-41) are not in the report: loss is not finite" in dom
    browse(f"--screenshot={picture}")
    assert size_of_png(picture) == (1280, 1000)

    from matplotlib.image import imread

    pixels = imread(picture)[..., :3]
    ink = (pixels.min(axis=2) < 0.5).mean()
    assert 0.005 < ink < 0.5, "the picture is blank, or all ink"
    blue = (pixels[..., 2] > pixels[..., 0] + 0.3).sum()
    orange = (pixels[..., 0] > pixels[..., 2] + 0.3).sum()
    assert blue > 500 and orange > 500, "both runs have their colour"
