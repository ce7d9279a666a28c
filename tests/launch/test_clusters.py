"""A site's file is read strictly: a slip in it is named, and never passed over."""

from pathlib import Path

import pytest

from trainwright.launch import LaunchError
from trainwright.launch.clusters import default_file, read_cluster, selected_cluster
from trainwright.launch.command_line import split
from trainwright.launch.options import OPTIONS


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """Where the cluster file is."""
    return tmp_path / "clusters.toml"


def test_values_are_kept_as_a_command_line_would_hold_them(file: Path) -> None:
    """Numbers become text, `-` and `_` are the same, tables of parameters keep true."""
    file.write_text(
        """
        [other]
        [hops]
        gpus_per_node = 8
        peak-mem-clk = -1
        no-gpu-resource-request = true
        mount = ["/a", "/b:/c:ro"]
        additional_slurm_params = {qos = "x", nice = 5, exclusive = true}
        """
    )
    cluster = read_cluster(file, "hops")
    assert cluster.values == {
        "gpus_per_node": "8",
        "peak_mem_clk": "-1",
        "no_gpu_resource_request": True,
        "mounts": ["/a", "/b:/c:ro"],
        "additional_slurm_params": {"qos": "x", "nice": "5", "exclusive": True},
    }
    assert cluster.label("gpus_per_node") == f"{file}, [hops] gpus_per_node"
    assert read_cluster(file, "other").values == {}


def test_every_option_of_a_site_can_stand_in_its_file(file: Path) -> None:
    """The option table says which; each is found by the name of its flag."""
    samples = {"gpus_per_node": "1", "peak_mem_clk": "1", "max_requeues": "1", "no_gpu_resource_request": "true"}
    allowed = [option for option in OPTIONS if option.cluster]
    lines = [
        f"{option.names[-1].lstrip('-')} = " + samples.get(option.dest, '["x"]' if option.repeat else '"x"')
        for option in allowed
        if option.dest != "additional_slurm_params"
    ]
    file.write_text("\n".join(["[c]", *lines, 'additional-slurm-params = "a=b"']))
    assert set(read_cluster(file, "c").values) == {option.dest for option in allowed}


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("[hop]", "--cluster hops: {file} has no table [hops], did you mean hop?; there: hop"),
        ("[a]\n[b]\nx = 1", "--cluster hops: {file} has no table [hops]; there: a, b"),
        ("", "--cluster hops: {file} has no table [hops]; there: none"),
        ("hops = 3", "{file}: hops must be a table, [hops], and not a number"),
        ("[hops]\nacount = 'x'", "{file}, [hops] acount: no such option, did you mean account?"),
        ("[hops]\nzzz = 'x'", "{file}, [hops] zzz: no such option"),
        (
            "[hops]\nnodes = 2",
            "{file}, [hops] nodes: belongs to one launch, so it cannot stand in a cluster file; give --nodes",
        ),
        (
            "[hops]\ndry_run = true",
            "{file}, [hops] dry_run: belongs to one launch, so it cannot stand in a cluster file; give --dry-run",
        ),
        ("[hops]\naccount = 3", "{file}, [hops] account: a string is needed, and not a number"),
        ("[hops]\naccount = ''", "{file}, [hops] account: a string is needed, and not an empty string"),
        ("[hops]\naccount = ['x']", "{file}, [hops] account: a string is needed, and not a list"),
        ("[hops]\ntime = 01:30:00", "{file}, [hops] time: a string is needed, and not a date or a time"),
        ("[hops]\ngpus_per_node = '8'", "{file}, [hops] gpus_per_node: a whole number is needed, and not a string"),
        (
            "[hops]\ngpus_per_node = 8.0",
            "{file}, [hops] gpus_per_node: a whole number is needed, and not a number with a point",
        ),
        (
            "[hops]\ngpus_per_node = true",
            "{file}, [hops] gpus_per_node: a whole number is needed, and not true or false",
        ),
        (
            "[hops]\nmount = '/a'",
            '{file}, [hops] mount: a list of strings is needed, such as ["..."], and not a string',
        ),
        (
            "[hops]\nmount = ['/a', 3]",
            '{file}, [hops] mount: a list of strings is needed, such as ["..."], and not a list that holds a number',
        ),
        ("[hops]\nenv = ['']", "{file}, [hops] env: an empty string is no NAME"),
        (
            "[hops]\nno_gpu_resource_request = 'yes'",
            "{file}, [hops] no_gpu_resource_request: true or false is needed, and not a string",
        ),
        (
            "[hops]\nadditional_slurm_params = ['qos=x']",
            '{file}, [hops] additional_slurm_params: "K=V;K2=V2" or a table {{K = "V"}} is needed, and not a list',
        ),
        (
            "[hops]\nadditional_slurm_params = {qos = false}",
            "{file}, [hops] additional_slurm_params.qos: a string, a whole number or true is needed, and not false",
        ),
        (
            "[hops]\nmount = ['/a']\n\"srun-arg\" = []\nsrun_arg = []",
            "{file}, [hops]: srun-arg and srun_arg are the same option: give one",
        ),
    ],
)
def test_a_slip_in_the_file_is_named(file: Path, content: str, message: str) -> None:
    """File, table, key, what is needed, and the nearest name."""
    file.write_text(content)
    with pytest.raises(LaunchError) as caught:
        read_cluster(file, "hops")
    assert str(caught.value) == message.format(file=file)
    assert caught.value.exit_code == 2


def test_text_that_is_no_toml_is_refused_with_its_line(file: Path) -> None:
    """TOML's own words, on one line."""
    file.write_text("[hops]\naccount = x\n")
    with pytest.raises(LaunchError, match=r"clusters\.toml: not valid TOML: .*line 2") as caught:
        read_cluster(file, "hops")
    assert "\n" not in str(caught.value)
    file.write_bytes(b"[hops]\naccount = '\xff'\n")
    with pytest.raises(LaunchError, match="is not UTF-8 text"):
        read_cluster(file, "hops")


def test_the_file_is_the_one_named_or_the_users(tmp_path: Path) -> None:
    """A relative path is taken from the working directory; the default follows the XDG specification."""
    (tmp_path / "c.toml").write_text("[hops]\naccount = 'here'")
    own = tmp_path / "config" / "trainwright"
    own.mkdir(parents=True)
    (own / "clusters.toml").write_text("[hops]\naccount = 'own'")
    environment = {"XDG_CONFIG_HOME": str(tmp_path / "config"), "HOME": "/home/me"}
    for words, account in ((["--cluster-file=c.toml"], "here"), ([], "own")):
        cluster = selected_cluster(split(["--cluster=hops", *words]), environment, cwd=tmp_path)
        assert cluster is not None
        assert cluster.values == {"account": account}
    assert default_file({"HOME": "/home/me"}) == Path("/home/me/.config/trainwright/clusters.toml")
    assert default_file({"HOME": "/home/me", "XDG_CONFIG_HOME": "rel"}) == default_file({"HOME": "/home/me"})


def test_without_a_name_no_file_is_read() -> None:
    """A file without a name is a mistake; a name without a file is one too."""
    assert selected_cluster(split(["--nodes=2"]), {}) is None
    with pytest.raises(LaunchError, match=r"--cluster-file x is used only with --cluster NAME"):
        selected_cluster(split(["--cluster-file=x"]), {})
    with pytest.raises(LaunchError, match=r"there is no /none/trainwright/clusters\.toml; --cluster-file PATH names"):
        selected_cluster(split(["--cluster=hops"]), {"XDG_CONFIG_HOME": "/none"})
