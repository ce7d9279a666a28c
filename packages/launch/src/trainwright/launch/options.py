"""The launch options: one table, from which the parser, the help, `--show` and the cluster file's keys are made."""

from dataclasses import dataclass

SLURM = ("slurm",)
LOCAL = ("local",)
EVERYWHERE = ("slurm", "local")


@dataclass(frozen=True)
class Option:
    """One launch option: its spellings, what it sets, and where a value may come from."""

    names: tuple[str, ...]
    """Long names are written with `-` and also accepted with `_`."""
    dest: str
    """The attribute of `Settings` that holds the value."""
    metavar: str | None
    """Placeholder of the value; None for a switch, which takes none."""
    help: str
    group: str
    executors: tuple[str, ...] = SLURM
    """Who uses it; an executor of the user's own counts as slurm."""
    required: tuple[str, ...] = ()
    """Executors that cannot do without it."""
    repeat: bool = False
    cluster: bool = False
    """Whether a cluster file may set it."""
    environment: tuple[str, ...] = ()
    """Variables that give a value where no flag does."""
    switch_value: bool = True
    """What a switch says."""


RESOURCES, CONTAINER, PASSED_ON, SUBMISSION, SITE = (
    "Where and how much",
    "Container",
    "What reaches the job",
    "Submission",
    "Site defaults, and what is in effect",
)

OPTIONS = (
    Option(
        ("--executor",),
        "executor",
        "NAME",
        "slurm (default), local (this machine), or MODULE:FUNCTION, which returns a NeMo-Run executor",
        RESOURCES,
        executors=EVERYWHERE,
        cluster=True,
    ),
    Option(
        ("--nodes",),
        "nodes",
        "N",
        "nodes of the job",
        RESOURCES,
        executors=EVERYWHERE,
        required=("slurm", "own"),
    ),
    Option(
        ("--gpus-per-node",),
        "gpus_per_node",
        "N",
        "GPUs of each node, and as many tasks",
        RESOURCES,
        executors=EVERYWHERE,
        required=("slurm", "own"),
        cluster=True,
    ),
    Option(
        ("--nproc-per-node",),
        "nproc_per_node",
        "N",
        "ranks under --executor local; --gpus-per-node says the same there (default 1)",
        RESOURCES,
        executors=LOCAL,
    ),
    Option(
        ("--account",),
        "account",
        "NAME",
        "Slurm account",
        RESOURCES,
        required=SLURM,
        cluster=True,
        environment=("SLURM_ACCOUNT",),
    ),
    Option(
        ("--partition",),
        "partition",
        "NAME",
        "Slurm partition",
        RESOURCES,
        required=SLURM,
        cluster=True,
        environment=("SLURM_PARTITION",),
    ),
    Option(
        ("--time",),
        "time",
        "TIME",
        "limit as Slurm writes it: MM, MM:SS, HH:MM:SS, D-HH, D-HH:MM, D-HH:MM:SS (default: the partition's)",
        RESOURCES,
        cluster=True,
    ),
    Option(
        ("--gres",),
        "gres",
        "GRES",
        "generic resources of each node; where it names gpu, it takes the place of the request for GPUs",
        RESOURCES,
        cluster=True,
    ),
    Option(
        ("--no-gpu-resource-request",),
        "no_gpu_resource_request",
        None,
        "request no GPUs by number, for clusters that hand out whole nodes; the tasks stay",
        RESOURCES,
        cluster=True,
    ),
    Option(
        ("-lmc", "--peak-mem-clk"),
        "peak_mem_clk",
        "MHZ",
        "lock the GPUs' memory clock, once on each node, before the run; -1 leaves it alone "
        "(default 4752 for VR200 benchmark recipes)",
        RESOURCES,
        cluster=True,
    ),
    Option(
        ("--container-image",),
        "container_image",
        "IMAGE",
        "image file, or what else Pyxis takes",
        CONTAINER,
        required=SLURM,
        cluster=True,
        environment=("CONTAINER_IMAGE",),
    ),
    Option(
        ("--mount",),
        "mounts",
        "HOST[:CONTAINER[:FLAGS]]",
        "make a path visible in the container; nothing is mounted unless named (repeat)",
        CONTAINER,
        repeat=True,
        cluster=True,
    ),
    Option(
        ("--source",),
        "source",
        "DIR",
        "a checkout inside the container, under a --mount, whose packages go before the image's",
        CONTAINER,
        cluster=True,
    ),
    Option(
        ("--env",),
        "env",
        "NAME",
        "pass an exported variable on by its name; no variable goes along unless named (repeat)",
        PASSED_ON,
        repeat=True,
        cluster=True,
    ),
    Option(
        ("--srun-arg",),
        "srun_args",
        "ARG",
        "one more word for srun, such as --srun-arg=--mpi=pmix (repeat)",
        PASSED_ON,
        repeat=True,
        cluster=True,
    ),
    Option(
        ("--additional-slurm-params",),
        "additional_slurm_params",
        "K=V;K2=V2",
        "more sbatch options by their long names; K=true for one that takes no value",
        PASSED_ON,
        repeat=True,
        cluster=True,
    ),
    Option(
        ("--experiment-name",),
        "experiment_name",
        "NAME",
        "name of the job (default: the recipe's)",
        SUBMISSION,
    ),
    Option(
        ("--signal",),
        "signal",
        "SIG@SECONDS",
        "USR1 or TERM for the ranks, that many seconds before the limit: they save and stop in good order",
        SUBMISSION,
        cluster=True,
    ),
    Option(
        ("--max-requeues",),
        "max_requeues",
        "N",
        "put the job back into the queue at most N times when it stopped in good order, or failed after a new "
        "checkpoint (default 0)",
        SUBMISSION,
        cluster=True,
    ),
    Option(
        ("--wait",),
        "wait",
        None,
        "follow the job's logs and end with its exit status; Ctrl-C leaves it running",
        SUBMISSION,
    ),
    Option(
        ("--dry-run", "--submission-dry-run"),
        "dry_run",
        None,
        "check everything and print the script; submit nothing",
        SUBMISSION,
        executors=EVERYWHERE,
    ),
    Option(
        ("--render",),
        "render",
        "sbatch",
        "print one sbatch script that needs nothing of Trainwright outside the container",
        SUBMISSION,
    ),
    Option(
        ("--preflight",),
        "preflight",
        None,
        "resolve recipe, dataset and overrides first (the default where the recipes are installed)",
        SUBMISSION,
        executors=EVERYWHERE,
    ),
    Option(
        ("--no-preflight",),
        "preflight",
        None,
        "leave that to the container",
        SUBMISSION,
        executors=EVERYWHERE,
        switch_value=False,
    ),
    Option(("--cluster",), "cluster", "NAME", "take defaults from this table of the cluster file", SITE, EVERYWHERE),
    Option(
        ("--cluster-file",),
        "cluster_file",
        "PATH",
        "the cluster file (default ~/.config/trainwright/clusters.toml)",
        SITE,
        executors=EVERYWHERE,
    ),
    Option(
        ("--show",),
        "show",
        None,
        "print every value in effect and where it came from, and the command; submit nothing",
        SITE,
        executors=EVERYWHERE,
    ),
    Option(("--help",), "help", None, "this page; -h is run-recipe's", SITE, executors=EVERYWHERE),
)
