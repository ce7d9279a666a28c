"""A real Slurm on this machine: two nodes with two pretended GPUs each, on loopback, in one temporary directory.

Nothing of it can meet a Slurm that is installed here for real work: its own munge key and socket, its own ports, its
own state, and a `SLURM_CONF` that only the tests set. There is no accounting unless a test brings a `sacct` of its own.
"""

from __future__ import annotations

import os
import random
import re
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

PROGRAMS = ("munged", "slurmctld", "slurmd", "sbatch", "srun", "scontrol", "gcc")
HEADER = Path("/usr/include/slurm/spank.h")
APT = "apt-get install slurmctld slurmd slurm-client munge libslurm-dev gcc"
DOUBLE = Path(__file__).with_name("pyxis_double.c")
# Names that no resolver knows, as on clusters whose containers see no site DNS.
NODES = ("trainwright-n1", "trainwright-n2")
FINAL = {"COMPLETED", "FAILED", "CANCELLED", "TIMEOUT", "NODE_FAIL", "OUT_OF_MEMORY", "DEADLINE", "BOOT_FAIL"}
# What a site's shell may hold and would change what the tests' Slurm does.
FOREIGN = ("SLURM_", "SBATCH_", "SRUN_", "SALLOC_", "SQUEUE_", "SCANCEL_", "PYXIS_", "MUNGE_")


class ClusterFailed(Exception):
    """It did not start, or did not answer in time. The message holds the end of each daemon's log."""


def missing() -> str | None:
    """Why no cluster can be started here, or None."""
    path = os.environ.get("PATH", "") + ":/usr/sbin:/sbin"
    absent = [name for name in PROGRAMS if shutil.which(name, path=path) is None]
    if not HEADER.exists():
        absent.append(str(HEADER))
    if absent:
        return f"no Slurm here ({', '.join(absent)} missing): {APT}"
    if os.geteuid() != 0:
        return "the nodes of the tests' Slurm mount and chroot like a container runtime: run them as root"
    if subprocess.run(["unshare", "--mount", "true"], check=False, capture_output=True).returncode:
        return "no mount namespaces here, not even for root, and the nodes of the tests' Slurm need them"
    return None


@dataclass
class Cluster:
    """A running cluster and the few questions that tests ask of it."""

    base: Path
    daemons: dict[str, subprocess.Popen[bytes]] = field(default_factory=dict)

    @property
    def conf(self) -> Path:
        return self.base / "etc" / "slurm.conf"

    @property
    def record(self) -> Path:
        """JSON lines, one for each node of a step that was given container options (see pyxis_double.c)."""
        return self.base / "pyxis.jsonl"

    def environment(self, **changes: str) -> dict[str, str]:
        """This process's environment without what belongs to another Slurm, with this one's configuration."""
        kept = {name: value for name, value in os.environ.items() if not name.startswith(FOREIGN)}
        return {**kept, "SLURM_CONF": str(self.conf), **changes}

    def run(
        self,
        *words: str | Path,
        environment: Mapping[str, str] | None = None,
        cwd: Path | None = None,
        given: str | None = None,
        timeout: float = 120,
    ) -> subprocess.CompletedProcess[str]:
        """A command against this cluster, `given` on its standard input; its exit status is the caller's to judge."""
        return subprocess.run(
            [str(word) for word in words],
            env=self.environment() if environment is None else dict(environment),
            cwd=cwd,
            input="" if given is None else given,
            timeout=timeout,
            check=False,
            capture_output=True,
            encoding="utf-8",
            errors="surrogateescape",
        )

    def submit(
        self, script: str, *options: str, environment: Mapping[str, str] | None = None, cwd: Path | None = None
    ) -> int:
        """Hand a script, text beginning with `#!`, to sbatch on its standard input; the job's number."""
        answer = self.run("sbatch", "--parsable", *options, given=script, environment=environment, cwd=cwd)
        if answer.returncode:
            raise ClusterFailed(f"sbatch: {answer.stderr.strip()}")
        return int(answer.stdout.split(";")[0])

    def job(self, number: int) -> dict[str, str]:
        """What Slurm says of a job: scontrol's fields by name."""
        answer = self.run("scontrol", "-o", "show", "job", str(number))
        if answer.returncode:
            raise ClusterFailed(f"scontrol show job {number}: {answer.stderr.strip()}")
        return dict(re.findall(r"(?:^|\s)([A-Za-z:/_]+)=(.*?)(?=\s[A-Za-z:/_]+=|\s*$)", answer.stdout))

    def wait(self, number: int, *states: str, timeout: float = 400) -> dict[str, str]:
        """The job's fields once it is in one of `states` (any final one if none is named)."""
        wanted = set(states) or FINAL
        deadline = time.monotonic() + timeout
        while True:
            fields = self.job(number)
            if fields["JobState"] in wanted:
                return fields
            if time.monotonic() > deadline or (states and fields["JobState"] in FINAL):
                raise ClusterFailed(f"job {number} is {fields['JobState']} ({fields['Reason']}), not {sorted(wanted)}")
            time.sleep(0.2)

    def until(self, wanted: Callable[[], object], *, timeout: float = 200) -> None:
        """Wait for something that a job does."""
        deadline = time.monotonic() + timeout
        while not wanted():
            if time.monotonic() > deadline:
                raise ClusterFailed(f"not within {timeout} s\n{self.run('squeue').stdout}")
            time.sleep(0.1)

    def start_soon(self, number: int, restart: int, *, timeout: float = 200) -> None:
        """Spare a job Slurm's two minutes of waiting before its `restart`-th new start.

        Not all of them: nodes refuse a job whose last start they have been told to end in the same second.
        """
        self.until(lambda: self.job(number)["Restarts"] == str(restart), timeout=timeout)
        self.until(lambda: self.job(number)["JobState"] != "COMPLETING", timeout=timeout)
        soon = ("scontrol", "update", f"jobid={number}", "starttime=now+2")
        self.until(lambda: self.job(number)["JobState"] != "PENDING" or self.run(*soon).returncode == 0)

    def logs(self) -> str:
        """The end of each daemon's log."""
        parts = []
        for log in sorted((self.base / "log").iterdir()):
            lines = log.read_text(errors="replace").splitlines()[-25:]
            parts.append("\n".join([f"--- {log.name}", *lines]))
        return "\n".join(parts)


@contextmanager
def running_cluster(*, hidden: Sequence[Path] = ()) -> Iterator[Cluster]:
    """Start the cluster, and stop it in good order. Containers do not see what lies in `hidden` unless it is mounted.

    Raises:
        ClusterFailed: a daemon ended, or the nodes were not idle within two minutes.
    """
    base = Path(tempfile.mkdtemp(prefix="tws"))  # short: sockets have paths of 108 characters at most
    cluster = Cluster(base)
    try:
        _write_files(cluster, hidden)
        _start(cluster)
        yield cluster
    finally:
        _stop(cluster)
        shutil.rmtree(base, ignore_errors=True)


def _write_files(cluster: Cluster, hidden: Sequence[Path]) -> None:
    base = cluster.base
    base.chmod(0o755)
    for name in ("etc", "log", "munge", "state", "scratch", *(f"spool_{node}" for node in NODES)):
        (base / name).mkdir(mode=0o755)
    key = base / "munge" / "key"
    key.write_bytes(random.randbytes(128))
    key.chmod(0o400)
    for index in range(2):
        (base / f"gpu{index}").touch()
    plugin = base / "pyxis_double.so"
    compiler = ["gcc", "-shared", "-fPIC", "-O1", "-Wall", "-Wextra", "-o", str(plugin), str(DOUBLE)]
    compiled = subprocess.run(compiler, check=False, capture_output=True, text=True, timeout=120)
    if compiled.returncode:
        raise ClusterFailed(f"the Pyxis double does not compile:\n{compiled.stderr}")
    hiding = " ".join(f"hide={path}" for path in hidden)
    words = f"record={cluster.record} scratch={base}/scratch {hiding}"
    (base / "etc" / "plugstack.conf").write_text(f"required {plugin} {words}\n")
    (base / "etc" / "gres.conf").write_text(
        "".join(f"NodeName={node} Name=gpu File={base}/gpu[0-1]\n" for node in NODES)
    )
    cluster.conf.write_text(_slurm_conf(base))


def _slurm_conf(base: Path) -> str:
    """`slurm.conf`. Task, accounting and MPI plugins are left at their defaults, which differ between releases."""
    host = socket.gethostname().split(".")[0]
    controller, *node_ports = _free_ports(1 + len(NODES))
    lines = [
        "ClusterName=trainwright",
        f"SlurmctldHost={host}(127.0.0.1)",
        f"SlurmctldPort={controller}",
        "AuthType=auth/munge",
        f"AuthInfo=socket={base}/munge/sock",
        "SlurmUser=root",
        "SlurmdUser=root",
        # Two nodes with more CPUs than this machine has: believed, and not drained.
        "SlurmdParameters=config_overrides",
        "ReturnToService=2",
        "ProctrackType=proctrack/linuxproc",
        "SelectType=select/cons_tres",
        "SelectTypeParameters=CR_CPU",
        "GresTypes=gpu",
        f"StateSaveLocation={base}/state",
        f"SlurmdSpoolDir={base}/spool_%n",
        f"SlurmctldPidFile={base}/slurmctld.pid",
        f"SlurmdPidFile={base}/slurmd_%n.pid",
        # From stop to kill: a run on a busy machine saves a checkpoint in it.
        "KillWait=30",
        "MinJobAge=600",
        "MessageTimeout=60",
        "BatchStartTimeout=60",
        "SchedulerParameters=sched_interval=2,batch_sched_delay=0,default_queue_depth=100",
        # Two sessions on one machine must not have jobs of one number: ports are derived from it.
        f"FirstJobId={random.randrange(1000, 60000)}",
        f"PlugStackConfig={base}/etc/plugstack.conf",
    ]
    lines += [
        f"NodeName={node} NodeHostname={host} NodeAddr=127.0.0.1 Port={port} CPUs=16 RealMemory=4000 Gres=gpu:2"
        for node, port in zip(NODES, node_ports, strict=True)
    ]
    lines.append(f"PartitionName=batch Nodes={','.join(NODES)} Default=YES MaxTime=INFINITE State=UP OverSubscribe=NO")
    return "\n".join(lines) + "\n"


def _free_ports(count: int) -> list[int]:
    """Ports nobody listens on, below the range from which the kernel hands out others."""
    found: list[int] = []
    while len(found) < count:
        port = random.randrange(7000, 20000)
        with socket.socket() as probe:
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                continue
        if port not in found:
            found.append(port)
    return found


def _start(cluster: Cluster) -> None:
    base = cluster.base
    munge = base / "munge"
    options = {"key-file": "key", "socket": "sock", "pid-file": "pid", "log-file": "log", "seed-file": "seed"}
    _daemon(cluster, "munged", "--foreground", *(f"--{option}={munge / name}" for option, name in options.items()))
    deadline = time.monotonic() + 120
    while not (munge / "sock").exists():
        _expect_running(cluster, deadline, "munged has no socket yet")
    _daemon(cluster, "slurmctld", "-D", "-i")
    for node in NODES:
        _daemon(cluster, "slurmd", "-D", "-N", node)
    while True:
        states = cluster.run("sinfo", "-h", "-N", "-o", "%T").stdout.split()
        if states == ["idle"] * len(NODES):
            return
        _expect_running(cluster, deadline, f"the nodes are {states or 'not there'}, not idle")


def _daemon(cluster: Cluster, program: str, *words: str) -> None:
    """Start a daemon as a direct child: an orphan's end is seen late where PID 1 reaps seldom."""
    name = "_".join([program, *(word for word in words if word in NODES)])
    environment = cluster.environment()
    environment["PATH"] = environment.get("PATH", "/usr/bin:/bin") + ":/usr/sbin:/sbin"
    with (cluster.base / "log" / name).open("wb") as log:
        cluster.daemons[name] = subprocess.Popen(
            [shutil.which(program, path=environment["PATH"]) or program, *words],
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=subprocess.STDOUT,
            start_new_session=True,  # Ctrl-C at pytest's terminal is not theirs
        )


def _expect_running(cluster: Cluster, deadline: float, waiting_for: str) -> None:
    ended = [name for name, daemon in cluster.daemons.items() if daemon.poll() is not None]
    if ended or time.monotonic() > deadline:
        raise ClusterFailed(f"{' and '.join(ended) + ' ended' if ended else waiting_for}\n{cluster.logs()}")
    time.sleep(0.05)


def _stop(cluster: Cluster) -> None:
    """Jobs first (a step outlives its slurmd), then nodes, controller, munge."""
    if "slurmctld" in cluster.daemons and cluster.daemons["slurmctld"].poll() is None:
        cluster.run("scancel", "--state=PENDING", "--user=root")
        cluster.run("scancel", "--signal=KILL", "--user=root")
        cluster.run("scancel", "--user=root")
        deadline = time.monotonic() + 20
        while cluster.run("squeue", "-h", "-o", "%i").stdout.strip() and time.monotonic() < deadline:
            time.sleep(0.2)
    for daemon in reversed(list(cluster.daemons.values())):
        if daemon.poll() is None:
            daemon.send_signal(signal.SIGTERM)
        try:
            daemon.wait(timeout=20)
        except subprocess.TimeoutExpired:
            daemon.kill()
            daemon.wait(timeout=20)
