"""A typed value becomes the type of its field, or is refused by field, value and what is allowed."""

import pytest
from recipes_runs import refusal, run, says, value

from trainwright.recipes import FLAGS


@pytest.mark.parametrize(
    ("word", "path", "expected"),
    [
        ("train.train_iters=1000", "train.train_iters", 1000),
        ("train.check_for_nan_in_loss=FALSE", "train.check_for_nan_in_loss", False),
        ("train.check_for_nan_in_loss=True", "train.check_for_nan_in_loss", True),
        ("optimizer.lr=1e-3", "optimizer.lr", 1e-3),
        ("optimizer.clip_grad=1", "optimizer.clip_grad", 1.0),
        ("optimizer.clip_grad=0", "optimizer.clip_grad", 0.0),
        ("validation.eval_iters=0", "validation.eval_iters", 0),
        ("validation.eval_interval=null", "validation.eval_interval", None),
        ("validation.eval_interval=None", "validation.eval_interval", None),
        ("checkpoint.save_interval=null", "checkpoint.save_interval", None),
        ("checkpoint.save=123", "checkpoint.save", "123"),
        ("checkpoint.save=00123", "checkpoint.save", "00123"),
        ("checkpoint.save=1e5", "checkpoint.save", "1e5"),
        ("checkpoint.save=true", "checkpoint.save", "true"),
        ("checkpoint.save='null'", "checkpoint.save", "null"),
        ("checkpoint.save=null", "checkpoint.save", None),
        ("checkpoint.save=x,y", "checkpoint.save", "x,y"),
        ("checkpoint.load=/c/epoch=9-step=1.ckpt", "checkpoint.load", "/c/epoch=9-step=1.ckpt"),
        ("dataset.split=9,1", "dataset.split", "9,1"),
        ("profiling.profile_ranks=[0]", "profiling.profile_ranks", [0]),
        ("profiling.profile_ranks=[]", "profiling.profile_ranks", []),
        ("scheduler.lr_decay_style=linear", "scheduler.lr_decay_style", "linear"),
        ("model.softmax_scale=1", "model.softmax_scale", 1.0),
        ("model.window_size=[7,0]", "model.window_size", [7, 0]),
        ("model.recompute_modules=[mlp]", "model.recompute_modules", ["mlp"]),
        ("env_vars.A=1", "env_vars.A", "1"),
        ("env_vars.A=", "env_vars.A", ""),
    ],
)
def test_a_value_survives_with_the_type_of_its_field(word: str, path: str, expected: object) -> None:
    """Falsy values too: 0, false, null and the empty list are what was typed, and no default comes back."""
    found = value(run(word).config, path)
    assert found == expected
    assert type(found) is type(expected)


@pytest.mark.parametrize(
    ("word", "parts"),
    [
        ("train.train_iters=abc", ("train.train_iters=abc", "a whole number")),
        ("train.train_iters=10.0", ("a whole number", "write 10")),
        ("train.train_iters=true", ("a whole number",)),
        ("train.train_iters='10'", ("a whole number",)),
        ("train.train_iters=[1,2]", ("train.train_iters=[1,2]", "a whole number")),
        ("train.train_iters=null", ("cannot be null", "a whole number")),
        ("train.train_iters=", ("a whole number",)),
        ("train.train_iters=1,2", ("several values", "train.train_iters=[a,b]")),
        ("train.train_iters=range(1,3)", ("several values",)),
        ("train.train_iters=-1", ("at least 1",)),
        ("model.sequence_parallel=0", ("true or false",)),
        ("model.sequence_parallel=no", ("true or false", "no yes/no")),
        ("model.sequence_parallel='false'", ("true or false", "no quotes")),
        ("optimizer.lr=fast", ("optimizer.lr=fast", "a number")),
        ("optimizer.lr='1e-5'", ("a number",)),
        ("optimizer.lr=true", ("a number",)),
        ("optimizer.lr=nan", ("optimizer.lr=nan", "finite")),
        ("optimizer.lr=0", ("optimizer.lr=0", "above 0")),
        ("optimizer.adam_beta1=1", ("below 1",)),
        ("optimizer.optimizer=adm", ("adam, sgd", "'adam'")),
        ("scheduler.lr_decay_style=Cosine", ("constant, linear, cosine", "'cosine'")),
        ("checkpoint.save=", ("checkpoint.save is empty", "null")),
        ("checkpoint.save=[a]", ("text", "quote the value")),
        ("profiling.profile_ranks=0", ("a list", "[0]")),
        ("profiling.profile_ranks=[a]", ("a list", "whole number")),
        ("dataset.data_path=a,b", ("dataset.data_path=[a,b]", '"a,b"')),
        ("dataset.data_path=[a,{b:c}]", ("a list",)),
        ("rng.seed=0", ("rng.seed=0", "at least 1")),
        ("model.softmax_scale=big", ("model.softmax_scale=big", "a number or null")),
        ("model.softmax_type=learnabl", ("vanilla, off-by-one, learnable", "'learnable'")),
        ("model.window_size=7", ("a list", "[7]")),
        ("env_vars={A:true}", ("env_vars.A", "quotes")),
        ("env_vars.A=null", ("env_vars.A", "cannot be null")),
    ],
)
def test_a_value_of_another_type_is_refused(word: str, parts: tuple[str, ...]) -> None:
    says(refusal(word), *parts)


def test_a_flag_and_an_override_are_typed_alike() -> None:
    assert value(run(flags={"optimizer.lr": "2e-3"}).config, "optimizer.lr") == 2e-3
    says(refusal(flags={"train.train_iters": "1.5"}), "--max_steps 1.5", "train.train_iters", "a whole number")
    says(refusal(flags={"train.log": "1"}), "no flag sets this field")


def test_text_behind_a_flag_is_taken_as_it_is() -> None:
    """The shell has already read it once."""
    for text in ("a,b", "[x]", "'q'", "null", "${x}", "é=1"):
        assert value(run(flags={"checkpoint.save": text}).config, "checkpoint.save") == text
    says(refusal(flags={"checkpoint.save": ""}), "--save_dir", "empty")


def test_a_flag_can_unset_what_may_be_null() -> None:
    flags = {"model.virtual_pipeline_model_parallel_size": "null"}
    assert value(run(flags=flags).config, "model.virtual_pipeline_model_parallel_size") is None


def test_every_flag_names_a_field_once() -> None:
    config = run().config
    assert len({flag.field for flag in FLAGS}) == len(FLAGS) == 17
    for flag in FLAGS:
        section, _, field = flag.field.partition(".")
        assert field in type(getattr(config, section)).model_fields
