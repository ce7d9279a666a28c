"""The event files, read back by TensorBoard's own reader."""

import math

import pytest
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
from tensorboard.backend.event_processing.event_file_loader import LegacyEventFileLoader
from tests.runner.telemetry_run import TOKENS, Meter, applied, session, skipped

from trainwright.runner.errors import RunFailed, RunRefused
from trainwright.runner.telemetry.event_file import EventFile

UPDATE_TAGS = {
    "lm loss", "iteration-time", "learning-rate", "grad-norm", "batch-size",
    "memory/mem-reserved-gigabytes", "memory/mem-allocated-gigabytes",
    "throughput/tokens_per_sec", "throughput/device/tokens_per_sec",
}  # fmt: skip


def points(directory):
    """Tag -> step -> value, as TensorBoard would show it."""
    accumulator = EventAccumulator(str(directory), size_guidance={"scalars": 0, "tensors": 0}).Reload()
    shown = {}
    for tag in accumulator.Tags()["scalars"]:
        shown[tag] = {event.step: event.value for event in accumulator.Scalars(tag)}
    for tag in accumulator.Tags()["tensors"]:
        shown[tag] = {event.step: event.tensor_proto.float_val[0] for event in accumulator.Tensors(tag)}
    return shown


def test_every_update_is_a_point_of_each_tag(tmp_path):
    with session(tmp_path, device=Meter((3_000_000_000, 5_000_000_000))) as telemetry:
        for step in range(1, 11):
            telemetry.attempt(applied(10.0 - step, seconds=0.25, grad_norm=step / 8, lr=step / 1024))
        telemetry.finish()
    shown = points(tmp_path / "tb_logs")
    assert set(shown) == UPDATE_TAGS
    assert shown["lm loss"] == {step: 10.0 - step for step in range(1, 11)}
    assert shown["grad-norm"] == {step: step / 8 for step in range(1, 11)}
    assert shown["learning-rate"] == {step: step / 1024 for step in range(1, 11)}
    assert set(shown["iteration-time"].values()) == {0.25}
    assert set(shown["batch-size"].values()) == {4.0}
    assert shown["memory/mem-allocated-gigabytes"][1] == 3.0 and shown["memory/mem-reserved-gigabytes"][10] == 5.0
    assert shown["throughput/tokens_per_sec"][5] == TOKENS / 0.25
    assert shown["throughput/device/tokens_per_sec"][5] == TOKENS / 0.25 / 2


def test_what_a_run_may_have_gets_its_tag_when_it_has_it(tmp_path):
    with session(tmp_path) as telemetry:
        telemetry.attempt(
            applied(1.0, seconds=0.5, loss_scale=4096.0, learning_rates={"default": 0.5, "decoupled": 0.25}, flops=3e12)
        )
        telemetry.validation(2.5, 1.0)
        telemetry.finish()
    shown = points(tmp_path / "tb_logs")
    assert shown["throughput/tflops/device"] == {1: 3.0}
    assert shown["loss-scale"] == {1: 4096.0}
    assert shown["lm loss validation"] == {1: 2.5}
    assert shown["learning-rate"] == {1: 0.5} and shown["learning-rate/decoupled"] == {1: 0.25}


def test_a_skipped_update_shows_why_at_the_step_that_it_tried(tmp_path):
    with session(tmp_path) as telemetry:
        telemetry.attempt(applied(3.0))
        telemetry.attempt(skipped(grad_norm=math.inf, loss=math.nan, loss_scale=2.0))
        telemetry.fail("gave up")
    shown = points(tmp_path / "tb_logs")
    assert shown["grad-norm"][2] == math.inf and math.isnan(shown["lm loss"][2])
    assert shown["skipped-updates"] == {2: 1.0}
    assert set(shown["iteration-time"]) == {1}, "a reader would take it for a finished update"


def test_the_update_that_succeeds_after_a_skip_has_the_last_word_on_its_step(tmp_path):
    with session(tmp_path) as telemetry:
        telemetry.attempt(skipped(loss=math.nan))
        telemetry.attempt(applied(3.0, grad_norm=0.5))
        telemetry.finish()
    shown = points(tmp_path / "tb_logs")
    assert shown["lm loss"] == {1: 3.0} and shown["grad-norm"] == {1: 0.5}


def test_a_norm_that_is_not_finite_is_written_as_it_is(tmp_path):
    with session(tmp_path) as telemetry:
        telemetry.attempt(applied(3.0, grad_norm=math.nan))
        telemetry.finish()
    assert math.isnan(points(tmp_path / "tb_logs")["grad-norm"][1])


def test_each_session_has_a_file_and_takes_back_what_a_crash_rolled_back(tmp_path):
    with session(tmp_path) as telemetry:
        for loss in (8.0, 7.0, 6.0, 5.0, 4.0):
            telemetry.attempt(applied(loss))
    with session(tmp_path, start=(3, 3 * TOKENS, 0)) as telemetry:
        telemetry.attempt(applied(5.5))
    assert len(list((tmp_path / "tb_logs").iterdir())) == 2
    assert points(tmp_path / "tb_logs")["lm loss"] == {1: 8.0, 2: 7.0, 3: 6.0, 4: 5.5}


def test_a_point_is_in_the_file_as_soon_as_it_is_made(tmp_path):
    with session(tmp_path) as telemetry:
        telemetry.attempt(applied(8.0))
        assert points(tmp_path / "tb_logs")["lm loss"] == {1: 8.0}


def test_records_pass_tensorboards_checksums(tmp_path):
    file = EventFile.create(tmp_path, first_step=1)
    for step in range(100):
        file.write(step, {f"tag {step}": step / 7, "other": -math.inf})
    file.close()
    file.close()
    events = list(LegacyEventFileLoader(str(file.path)).Load())
    assert len(events) == 102
    assert events[0].file_version == "brain.Event:2"
    assert events[-1].step == 99 and events[-1].summary.value[1].simple_value == -math.inf


def test_the_folder_of_the_configuration_is_used(tmp_path):
    elsewhere = tmp_path / "elsewhere"
    with session(tmp_path / "run", f"logger.tensorboard_dir='{elsewhere}'") as telemetry:
        telemetry.attempt(applied(8.0))
    assert points(elsewhere)["lm loss"] == {1: 8.0}
    assert not (tmp_path / "run" / "tb_logs").exists()


def test_an_unwritable_folder_is_refused_before_a_session_stands_in_the_log(tmp_path):
    (tmp_path / "tb_logs").write_text("in the way")
    with pytest.raises(RunRefused, match="tb_logs"), session(tmp_path):
        pass
    assert not (tmp_path / "run.json").exists()


def test_a_file_that_can_no_longer_be_written_fails_the_run(tmp_path, monkeypatch):
    with session(tmp_path) as telemetry:

        def full(self, event):
            raise OSError(28, "No space left on device", "events.out")

        monkeypatch.setattr(EventFile, "_append", full)
        with pytest.raises(RunFailed, match=r"events\.out: No space left"):
            telemetry.attempt(applied(8.0))
