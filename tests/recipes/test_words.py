"""The parser of `run-recipe`'s words."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trainwright.recipes import FLAGS
from trainwright.recipes.words import OPTIONS, Command, UsageError, parse, wants_help


def parsed(line: str) -> Command:
    return parse(line.split())


def test_selection_flags_fill_the_selection():
    selection = parsed("--recipe r --mode sft --dataset mock --step-func llm_step").selection
    assert (selection.recipe, selection.model, selection.mode) == ("r", None, "sft")
    assert (selection.dataset, selection.step_func) == ("mock", "llm_step")


@pytest.mark.parametrize("flag", FLAGS, ids=lambda flag: flag.names[-1])
@pytest.mark.parametrize("joined", [" ", "="])
def test_every_convenience_flag_sets_its_field_under_every_spelling(flag, joined):
    for name in flag.names:
        for spelling in {name, name.replace("_", "-")}:
            assert parsed(f"{spelling}{joined}7").flags == {flag.field: "7"}


@pytest.mark.parametrize("option", OPTIONS, ids=lambda option: option.names[-1])
def test_long_flags_take_dashes_and_underscores(option):
    value = [] if option.metavar is None else ["2" if option.sets == "ranks" else "cpu"]
    beside = {"plan": ["--dry-run"], "ranks": ["--rehearse"]}.get(option.sets, [])
    for name in option.names:
        if name.startswith("--"):
            body = name[2:]
            dashes, underscores = f"--{body.replace('_', '-')}", f"--{body.replace('-', '_')}"
            assert parse([underscores, *value, *beside]) == parse([dashes, *value, *beside])


def test_overrides_stand_anywhere_and_keep_their_order_and_text():
    command = parse(
        ["model.a=1", "--recipe", "r", "+x.y= two  words=", "-ms", "3", "dataset.s='a[:4]'", "--dry-run", "z=-1"]
    )
    assert command.overrides == ("model.a=1", "+x.y= two  words=", "dataset.s='a[:4]'", "z=-1")
    assert command.flags == {"train.train_iters": "3"}
    assert (command.dry_run, command.deterministic, command.dump_env) == (True, False, False)


@pytest.mark.parametrize("value", ["-5", "-1e-5", "-.5"])
def test_a_negative_number_is_a_value(value):
    assert parse(["--lr", value]).flags == {"optimizer.lr": value}


def test_a_value_that_begins_with_a_dash_follows_an_equals_sign():
    assert parse(["--save_dir=-odd=name"]).flags == {"checkpoint.save": "-odd=name"}


def test_a_deletion_is_an_override():
    assert parsed("~env_vars.NCCL_DEBUG").overrides == ("~env_vars.NCCL_DEBUG",)


def test_the_run_directory_may_have_any_name():
    assert parse(["--run_dir", "runs/a b=c"]).run_dir == "runs/a b=c"


def test_the_same_flag_with_the_same_value_is_no_contradiction():
    assert parsed("-ms 5 --max-steps=5 --dry-run --dry_run").flags == {"train.train_iters": "5"}


@pytest.mark.parametrize(
    ("line", "says"),
    [
        ("--rec x", "unknown flag '--rec'; did you mean --recipe? (flags are not abbreviated)"),
        ("--max x", "did you mean --max_steps? (flags are not abbreviated)"),
        ("--recpie x", "unknown flag '--recpie'; did you mean --recipe?"),
        ("--max_setps=4", "unknown flag '--max_setps'; did you mean --max_steps?"),
        ("-max_steps 2", "unknown flag '-max_steps'; did you mean --max_steps?"),
        ("-x=1", "unknown flag '-x'"),
        ("--", "unknown flag '--'; `run-recipe --help` lists the flags"),
        ("\u2013recipe x", "did you mean --recipe?"),
        ("foo", "'foo' is neither a flag nor KEY=VALUE; `run-recipe --help` lists the flags"),
        ("max_steps", "did you mean --max_steps?"),
        ("train.train_iters = 4", "'train.train_iters' has no value; write train.train_iters=VALUE without spaces"),
        ("=4", "'=4' names no field before '='"),
        ("--dry-run true", "'true' is neither a flag nor KEY=VALUE; --dry-run takes no value"),
        ("--dry-run=true", "--dry-run takes no value, but was given 'true'"),
        ("--recipe", "--recipe needs a value: --recipe NAME"),
        ("--recipe --mode sft", "--recipe needs a value"),
        ("--recipe=", "--recipe needs a value"),
        ("-ms -gb 4", "-ms needs a value"),
        ("-ms 1 --max_steps 2", "-ms 1 and --max_steps 2 contradict each other: both set train.train_iters"),
        ("--recipe a --recipe=b", "--recipe a and --recipe b contradict each other"),
        ("--device tpu", "--device 'tpu' is not one of auto, cpu, cuda"),
    ],
)
def test_a_word_that_means_nothing_is_refused_with_what_to_type(line, says):
    with pytest.raises(UsageError) as refusal:
        parsed(line)
    assert says in str(refusal.value)
    assert refusal.value.exit_code == 2


def test_every_beginning_of_a_long_flag_is_refused():
    """No abbreviations: the next release may add a flag that begins alike."""
    names = {name.replace("_", "-") for option in OPTIONS for name in option.names}
    for name in names:
        for end in range(3, len(name)):
            if name.startswith("--") and name[:end] not in names:
                with pytest.raises(UsageError, match="unknown flag"):
                    parse([f"{name[:end]}=1"])


def test_help_is_heard_among_wrong_words():
    assert wants_help(["--nonsense", "--help"])
    assert wants_help(["-h"])
    assert not wants_help(["--recipe", "help"])


@given(st.lists(st.text(max_size=12), max_size=6))
def test_any_words_are_understood_or_refused(words):
    try:
        command = parse(words)
    except UsageError as refusal:
        assert str(refusal)
    else:
        assert all("=" in word or word.startswith("~") for word in command.overrides)


@given(
    st.permutations(["-ms 3", "--recipe r", "--dry-run", "a.b=1", "--lr=1e-3", "a.c=2"]),
)
def test_the_order_of_words_changes_nothing_but_the_order_of_overrides(parts):
    command = parsed(" ".join(parts))
    expected = parsed("-ms 3 --recipe r --dry-run a.b=1 --lr=1e-3 a.c=2")
    assert sorted(command.overrides) == sorted(expected.overrides)
    assert replace(command, overrides=()) == replace(expected, overrides=())
