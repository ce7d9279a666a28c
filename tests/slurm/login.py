"""A user on a login node of the tests' cluster, with a home of their own."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from tests.slurm.cluster import Cluster

COMMANDS = Path(sys.executable).parent
TRAINWRIGHT = COMMANDS / "trainwright"
TRAIN_SH = Path(__file__).parents[2] / "apps" / "login" / "train.sh"
# What a recorder is told to record.
RECIPE = ("--recipe", "vanilla_gpt_pretrain_config")


@dataclass(frozen=True)
class Login:
    """Where the launcher is started: a home, below which everything is found that it leaves behind."""

    cluster: Cluster
    home: Path

    @property
    def place(self) -> Path:
        """Where a user calls sbatch, as people name their folders."""
        return self.home / "the user's jobs"

    def environment(self, **changes: str) -> dict[str, str]:
        """A user's shell: nothing of this session's own configuration reaches the launcher."""
        own = {
            "HOME": str(self.home),
            "TMPDIR": str(self.home / "tmp"),
            # train.sh uses the trainwright of the environment that is active.
            "VIRTUAL_ENV": str(COMMANDS.parent),
            "PATH": f"{COMMANDS}:{os.environ.get('PATH', '/usr/bin:/bin')}",
        }
        kept = {
            name: value
            for name, value in self.cluster.environment().items()
            if not name.startswith(("XDG_", "NEMORUN", "CONTAINER_", "TORCHX"))
        }
        return {**kept, **own, **changes}

    def options(self, image: Path, *mounts: str, nodes: int = 2, gpus: int = 2) -> list[str]:
        """The launch options that every job needs."""
        needed = [f"--nodes={nodes}", f"--gpus-per-node={gpus}", "--account=team", "--partition=batch"]
        return [*needed, f"--container-image={image}", *(f"--mount={mount}" for mount in mounts)]

    def launch(
        self,
        *words: str | bytes | Path,
        program: Path = TRAINWRIGHT,
        environment: Mapping[str, str] | None = None,
        timeout: float = 400,
    ) -> subprocess.CompletedProcess[str]:
        """`trainwright launch WORDS` to its end."""
        process = self.start(*words, program=program, environment=environment)
        try:
            out, err = process.communicate(timeout=timeout)
        except subprocess.TimeoutExpired:
            process.kill()
            out, err = process.communicate()
            raise AssertionError(f"the launcher did not end:\n{out}\n{err}") from None
        return subprocess.CompletedProcess(process.args, process.returncode, out, err)

    def start(
        self, *words: str | bytes | Path, program: Path = TRAINWRIGHT, environment: Mapping[str, str] | None = None
    ) -> subprocess.Popen[str]:
        """`trainwright launch WORDS`, in the background."""
        (self.home / "tmp").mkdir(exist_ok=True)
        command = [program] if program == TRAIN_SH else [program, "launch"]
        return subprocess.Popen(
            [os.fsencode(word) for word in (*command, *words)],
            cwd=self.home,
            env=dict(environment or self.environment()),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            encoding="utf-8",
            errors="surrogateescape",
        )

    def sbatch_rendered(self, *words: str | bytes | Path, environment: Mapping[str, str] | None = None) -> int:
        """`trainwright launch --render sbatch WORDS | sbatch`, called in `self.place`, and the job's number."""
        rendered = self.launch("--render=sbatch", "--no-preflight", *words, environment=environment)
        assert rendered.returncode == 0, rendered.stderr
        self.place.mkdir(exist_ok=True)
        return self.cluster.submit(rendered.stdout, environment=environment or self.environment(), cwd=self.place)


def job_number(output: str) -> int:
    """The job of a submission, out of the squeue command that the launcher names."""
    found = re.search(r"squeue -j (\d+)", output)
    assert found is not None, output
    return int(found[1])
