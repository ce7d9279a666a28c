"""The double behaves as Pyxis does wherever the other tests of this folder lean on it."""

import json
from pathlib import Path

import pytest
from tests.slurm.cluster import Cluster


@pytest.fixture
def image(tmp_path: Path) -> Path:
    """A directory that stands for an image: one program, and an environment."""
    (tmp_path / "image" / "opt").mkdir(parents=True)
    (tmp_path / "image" / "opt" / "inside").write_text("of the image\n")
    (tmp_path / "image" / "etc").mkdir()
    (tmp_path / "image" / "etc" / "environment").write_text("PATH=/opt:/usr/bin:/bin\nBAKED=image\nNAMED=image\n")
    return tmp_path / "image"


def test_a_step_sees_the_image_its_mounts_and_its_directory(slurm: Cluster, image: Path, tmp_path: Path) -> None:
    """Two nodes, two tasks each: files of the image, rw and ro mounts, nothing else of the tests' own directory."""
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "file").write_text("of the mount\n")
    (tmp_path / "results").mkdir()
    mounts = f"{tmp_path}/data:/in/here:ro,{tmp_path}/results:/results"
    script = f"""
        pwd; cat /opt/inside file
        touch /in/here/new 2>/dev/null && echo wrote-read-only
        test -e {tmp_path}/data && echo saw-what-is-not-mounted
        echo "$SLURM_PROCID" >"/results/$SLURM_PROCID"
        echo >"/shared-$SLURM_LOCALID"
        until test -e /shared-0 && test -e /shared-1; do sleep 0.1; done
    """
    answer = slurm.run(
        *("srun", "-N2", "--ntasks-per-node=2", f"--container-image={image}", f"--container-mounts={mounts}"),
        *("--container-workdir=/in/here", "/bin/sh", "-c", script),
    )
    assert (answer.returncode, answer.stderr) == (0, "")
    assert sorted(answer.stdout.split("\n")) == sorted([*(["/in/here", "of the image", "of the mount"] * 4), ""])
    assert sorted(path.name for path in (tmp_path / "results").iterdir()) == ["0", "1", "2", "3"]
    assert not Path("/shared-0").exists()
    lines = [json.loads(line) for line in slurm.record.read_text().splitlines()]
    mine = [line for line in lines if line["options"].get("container-image") == str(image)]
    assert [line["options"]["container-mounts"] for line in mine] == [mounts, mounts]
    assert {line["node"] for line in mine} == {0, 1}


def test_the_image_wins_but_over_names_of_container_env(slurm: Cluster, image: Path) -> None:
    """A name that is not set here takes the image's value, as in Pyxis."""
    environment = slurm.environment(BAKED="mine", NAMED="mine", FREE="mine", LANG="C.UTF-8")
    answer = slurm.run(
        *("srun", f"--container-image={image}", "--container-env=NAMED,UNSET"),
        *("/bin/sh", "-c", 'echo "$BAKED $NAMED $FREE ${LANG-none} $PATH"'),
        environment=environment,
    )
    assert answer.stdout == "image mine mine none /opt:/usr/bin:/bin\n", answer.stderr


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--container-mounts=data:/data"], "source must be absolute"),
        (["--container-mounts=/tmp:data"], "target must be absolute"),
        (["--container-mounts=/tmp:/a:ro:b"], "more than three parts"),
        (["--container-mounts=/tmp:/a:readonly"], "invalid flag readonly"),
        (["--container-mounts=/no/such/place:/a"], "mount source /no/such/place: No such file"),
        (["--container-workdir=/no/such/place"], "couldn't chdir to /no/such/place"),
        (["--container-image=/no/such/image"], "no image directory /no/such/image"),
    ],
)
def test_what_pyxis_refuses_fails_the_step(slurm: Cluster, image: Path, options: list[str], said: str) -> None:
    """With the reason on srun's standard error."""
    answer = slurm.run("srun", f"--container-image={image}", *options, "/bin/true")
    assert answer.returncode != 0
    assert said in answer.stderr
