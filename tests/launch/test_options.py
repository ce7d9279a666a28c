"""Launch options are taken out of a command line, and nothing else in it changes."""

from dataclasses import fields

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trainwright.launch import LaunchError
from trainwright.launch.command_line import split, wants_help
from trainwright.launch.help_text import WIDTH, help_text
from trainwright.launch.options import OPTIONS
from trainwright.launch.settings import Settings

TEXT = st.text(st.characters(exclude_characters="\0"), max_size=12)
NAMES = {name for option in OPTIONS for name in option.names}


def is_ours(word: str) -> bool:
    """Whether the launcher takes the word, whatever dashes or underscores it is spelt with."""
    name = word.partition("=")[0]
    return ("--" + name[2:].replace("_", "-") if name.startswith("--") else name) in NAMES


FORWARDED = st.one_of(
    TEXT,
    TEXT.map("--x".__add__),
    TEXT.map("model.a=".__add__),
    st.sampled_from(
        ["-h", "-tp", "2", "-1", "--node", "--nodes-", "--gpus", "--timeout=3", "-lm", "--recipe", "\udcff"]
    ),
).filter(lambda word: word != "--" and not is_ours(word))


@st.composite
def launch_options(draw: st.DrawFn) -> tuple[str, ...]:
    """One option that repeats or says the same every time, in any of its spellings."""
    option = draw(st.sampled_from(OPTIONS))
    name = draw(st.sampled_from(option.names))
    if name.startswith("--") and draw(st.booleans()):
        name = "--" + name[2:].replace("-", "_")
    if option.metavar is None:
        return (name,)
    return draw(st.sampled_from([(name, "7"), (f"{name}=7",), (name, "-1"), (f"{name}=-1",)]))


@given(st.lists(st.one_of(FORWARDED.map(lambda word: (word,)), launch_options())), st.none() | st.lists(TEXT))
def test_no_forwarded_word_is_lost_moved_or_altered(parts: list[tuple[str, ...]], rest: list[str] | None) -> None:
    """Whatever stands between launch options comes out as it went in; so does everything from `--` on."""
    words = [word for part in parts for word in part] + ([] if rest is None else ["--", *rest])
    expected = [part[0] for part in parts if not is_ours(part[0])] + ([] if rest is None else ["--", *rest])
    try:
        typed = split(words)
    except LaunchError as error:
        # Options drawn with different values; nothing else may be refused.
        assert "contradict each other" in str(error)
        return
    assert list(typed.words) == expected


@pytest.mark.parametrize(
    ("words", "dest", "value"),
    [
        (["--gpus-per-node", "8"], "gpus_per_node", "8"),
        (["--gpus_per_node", "8"], "gpus_per_node", "8"),
        (["--gpus_per-node=8"], "gpus_per_node", "8"),
        (["-lmc", "-1"], "peak_mem_clk", "-1"),
        (["-lmc=-1"], "peak_mem_clk", "-1"),
        (["--peak_mem_clk", "4752"], "peak_mem_clk", "4752"),
        (["--additional_slurm_params", "a=b;c=d"], "additional_slurm_params", "a=b;c=d"),
        (["--srun-arg=--mpi=pmix"], "srun_args", "--mpi=pmix"),
        (["--account=--x"], "account", "--x"),
        (["--submission-dry-run"], "dry_run", True),
        (["--no_preflight"], "preflight", False),
        (["--nodes", "2", "--nodes=2"], "nodes", "2"),
        (["--dry-run", "--submission_dry_run"], "dry_run", True),
    ],
)
def test_every_spelling_is_understood(words: list[str], dest: str, value: str | bool) -> None:
    """`-` and `_`, the next word or `=`, the same thing said twice."""
    typed = split(words)
    assert [one.value for one in typed.given[dest]] == [value]
    assert typed.words == ()


def test_lists_keep_their_order() -> None:
    """Repeated options add up as typed, exact repetitions included."""
    typed = split(["--env", "B", "x=1", "--env=A", "--env", "B"])
    assert [one.value for one in typed.given["env"]] == ["B", "A", "B"]
    assert typed.words == ("x=1",)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--account"], "--account needs a value: --account NAME"),
        (["--account="], "--account needs a value: --account NAME"),
        (["--account", ""], "--account needs a value: --account NAME"),
        (
            ["--srun-arg", "--mpi=pmix"],
            "--srun-arg needs a value: --srun-arg ARG; one that begins with a dash is written --srun-arg=--mpi=pmix",
        ),
        (
            ["--nodes", "--gpus-per-node"],
            "--nodes needs a value: --nodes N; one that begins with a dash is written --nodes=--gpus-per-node",
        ),
        (["--wait=yes"], "--wait takes no value, but was given yes"),
        (["--account=a", "--account=b\nc"], "--account a and --account 'b\\nc' contradict each other: give one"),
        (["--dry-run="], "--dry-run takes no value, but was given ''"),
        (["--nodes", "2", "--nodes=3"], "--nodes 2 and --nodes 3 contradict each other: give one"),
        (["-lmc", "1", "--peak_mem_clk=2"], "-lmc 1 and --peak_mem_clk 2 contradict each other: give one"),
        (["--preflight", "--no-preflight"], "--preflight and --no-preflight contradict each other: give one"),
    ],
)
def test_what_cannot_be_read_is_refused_in_one_line(words: list[str], message: str) -> None:
    """The error says what is wrong and how it is written."""
    with pytest.raises(LaunchError) as caught:
        split([*words])
    assert str(caught.value) == message
    assert caught.value.exit_code == 2


@pytest.mark.parametrize("word", ["--node", "--gpus-per", "--acc", "-l", "-lmc4752", "--Nodes", "-nodes", "-l-m-c"])
def test_abbreviations_are_not_ours(word: str) -> None:
    """A word that only resembles an option is forwarded, and run-recipe says what it is not."""
    assert split([word, "3"]).words == (word, "3")


@pytest.mark.parametrize(
    ("words", "wanted"),
    [(["--help"], True), (["--nodes", "--help"], True), (["-h"], False), (["--", "--help"], False), ([], False)],
)
def test_help_is_given_however_wrong_the_rest_is(words: list[str], wanted: bool) -> None:
    """`-h` is run-recipe's, and so is what stands behind `--`."""
    assert wants_help(words) is wanted


def test_the_table_is_sound() -> None:
    """No name twice, no `_` in a name, every destination a setting, and the other way round."""
    names = [name for option in OPTIONS for name in option.names]
    assert len(names) == len(set(names))
    assert not [name for name in names if "_" in name]
    settings = {field.name for field in fields(Settings)} - {"origins", "notes"}
    assert {option.dest for option in OPTIONS} == settings


def test_help_names_every_option_and_fits_the_terminal() -> None:
    """100 columns; every name with its placeholder."""
    page = help_text()
    assert max(map(len, page.splitlines())) <= WIDTH
    for option in OPTIONS:
        for name in option.names:
            assert name in page
        assert option.metavar is None or f"{option.names[-1]} {option.metavar}" in page
