"""Words for srun and parameters for sbatch: what the launcher sets itself is refused, however it is spelt."""

from pathlib import Path

import pytest
from tests.launch.slurm_jobs import NEEDED, RECIPE, settings_of

from trainwright.launch import LaunchError
from trainwright.launch.clusters import read_cluster
from trainwright.launch.slurm_params import check_params, parse_pairs


@pytest.mark.parametrize(
    ("text", "params"),
    [
        ("qos=high", {"qos": "high"}),
        ("qos=high;mail-type=END", {"qos": "high", "mail_type": "END"}),
        (" qos = high ; comment=a b=c ", None),
        ("qos=high; comment=a b=c ", {"qos": "high", "comment": "a b=c"}),
        ("exclusive=true;hold=true", {"exclusive": True, "hold": True}),
        ("exclusive=True", {"exclusive": "True"}),
        ("a-b=1;a_b=1", {"a_b": "1"}),
        (
            "gpus=8;ntasks=2;container=x;time-min=5;wait-all-nodes=1",
            {"gpus": "8", "ntasks": "2", "container": "x", "time_min": "5", "wait_all_nodes": "1"},
        ),
        ('comment=it\'s "日本" $HOME #x', {"comment": 'it\'s "日本" $HOME #x'}),
    ],
)
def test_parameters_are_taken_apart(text: str, params: dict[str, str | bool] | None) -> None:
    """At every `;` and at the first `=` of a pair; blanks beside a key are no part of any name."""
    if params is None:
        with pytest.raises(ValueError):
            check_params(parse_pairs(text))
    else:
        assert check_params(parse_pairs(text)) == params


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "an empty pair: write KEY=VALUE, with one `;` between two"),
        ("qos=x;", "an empty pair: write KEY=VALUE, with one `;` between two"),
        ("qos=x;;a=b", "an empty pair: write KEY=VALUE, with one `;` between two"),
        ("exclusive", "'exclusive' has no `=`: write exclusive=VALUE, or =true for a bare option"),
        ("=x", "'=x' has an empty key: write KEY=VALUE"),
        ("qos=", "'qos=' has an empty value: write KEY=VALUE"),
        ("q os=x", "'q os' is no sbatch option: letters, digits, `-` and `_` are allowed in a key"),
        ("--qos=x", "'--qos' is no sbatch option: letters, digits, `-` and `_` are allowed in a key"),
        ("qos=a;qos=b", "qos is given twice, as a and as b"),
        ("a-b=1;a_b=2", "a_b is given twice, as 1 and as 2"),
        ("account=x", "account is set by the launcher: use --account"),
        ("job-name=x", "job-name is set by the launcher: use --experiment-name"),
        ("output=x", "output is set by the launcher"),
        ("requeue=true", "requeue is set by the launcher: use --max-requeues"),
        ("wait=true", "wait is set by the launcher: use --wait"),
        ("export=ALL", "export is set by the launcher: use --env"),
        ("container-mounts=/a", "container-mounts is set by the launcher: use --mount"),
        ("container-name=x", "container-name is set by the launcher"),
        ("no-requeue=true", "no-requeue cannot be given: the launcher submits with --requeue, which wins"),
        ("no_req=true", "no_req cannot be given: the launcher submits with --requeue, which wins"),
        ("array=1-4", "array cannot be given: all tasks of an array would write into one run directory"),
        ("wrap=ls", "wrap cannot be given: sbatch ignores it in a script"),
        ("acc=x", "acc, which is short for account, is set by the launcher: use --account"),
        ("gpus-per-n=8", "gpus-per-n, which is short for gpus_per_node, is set by the launcher: use --gpus-per-node"),
        ("comment=a\tb", "comment='a\\tb': only printable text, without blanks at either end, is allowed"),
        ("comment=a\\b", "comment='a\\\\b': sbatch drops a backslash that it reads in a script"),
        (
            "comment=\udcff",
            "comment='\\udcff': only printable text, without blanks at either end, is allowed",
        ),
    ],
)
def test_a_bad_pair_is_refused(text: str, message: str) -> None:
    """The pair, what is wrong with it, and which option to use."""
    with pytest.raises(ValueError) as caught:
        check_params(parse_pairs(text))
    assert str(caught.value).startswith(message)


@pytest.mark.parametrize(
    "arguments",
    [
        (),
        ("--mpi=pmix", "--no-container-mount-home", "--container-writable"),
        ("--comment", "a b"),
        ("-c", "4", "--label"),
        ("--container=x",),
        ("--export-file=x", "--outer=x"),
        ("--container-name=x",),
        ("--",),
    ],
)
def test_words_for_srun_are_taken_as_they_are(arguments: tuple[str, ...]) -> None:
    """One word each; an option's value may be a word of its own."""
    assert settings_of(*NEEDED, *RECIPE, *(f"--srun-arg={one}" for one in arguments)).srun_args == arguments


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--container-image=x",), "the launcher sets --container-image: use --container-image of the launcher"),
        (("--label", "--container-mounts", "/a"), "the launcher sets --container-mounts: use --mount"),
        (("--container-env=X",), "the launcher sets --container-env: use --env"),
        (("--container-workdir=/x",), "the launcher sets --container-workdir: the working directory is the job's own"),
        (("--container-wo=/x",), "the launcher sets --container-workdir: "),
        (("--output=x",), "the launcher sets --output: it names the logs and prints their paths"),
        (("--outp=x",), "the launcher sets --output: "),
        (("-o", "x"), "the launcher sets --output: "),
        (("-ox",), "the launcher sets --output: "),
        (("--export=ALL",), "the launcher sets --export: use --env"),
        (("pmix",), "srun would take it for the program to run"),
        (("--mpi=pmix", "x"), "srun would take it for the program to run"),
        (("--comment", "a", "b"), "srun would take it for the program to run"),
    ],
)
def test_what_the_launcher_sets_is_refused(arguments: tuple[str, ...], message: str) -> None:
    """Also abbreviated, as srun accepts it, and what would become the program; the word is named."""
    with pytest.raises(LaunchError) as caught:
        settings_of(*NEEDED, *RECIPE, *(f"--srun-arg={one}" for one in arguments))
    assert any(str(caught.value).startswith(f"--srun-arg {argument}: {message}") for argument in arguments)


def test_a_bad_word_of_a_site_is_its_files(tmp_path: Path) -> None:
    """The error names the file and not a flag that nobody typed."""
    file = tmp_path / "clusters.toml"
    file.write_text('[hops]\nsrun-arg = ["--mpi=pmix", "--export=ALL"]\n')
    with pytest.raises(LaunchError) as caught:
        settings_of(*NEEDED, *RECIPE, cluster=read_cluster(file, "hops"))
    assert str(caught.value) == f"{file}, [hops] srun-arg --export=ALL: the launcher sets --export: use --env"
