"""The launcher's `--help`, made from the option table."""

import textwrap

from trainwright.launch.options import OPTIONS, Option

WIDTH = 100
_COLUMN = 34
"""Where descriptions begin."""

_HEAD = """\
Usage: {program} [launch options] [run-recipe's words] [KEY=VALUE ...]

Send a run to a Slurm cluster, or start it on this machine. Words that are no launch option go to
run-recipe byte for byte and in order; `run-recipe --help` lists them.

  {program} --nodes 2 --gpus-per-node 8 --account ACCOUNT --partition PARTITION \\
      --container-image IMAGE --mount /data --env HF_TOKEN \\
      --recipe llama32_1b_pretrain_config --dataset mock -ms 100 model.sequence_parallel=true

  {program} --executor local --nproc-per-node 2 --recipe vanilla_gpt_pretrain_config -tp 2
"""
_TAIL = """\
Long options are also accepted with `_` for `-`. A value is the next word or follows `=`; one that
begins with a dash needs the `=`. A flag wins over an environment variable, that over the cluster
file; lists add up.

Exit codes: 0 submitted, or with --wait and under local the run is done; 1 the job failed or Slurm
refused it; 2 refused before anything was submitted; 75 the run stopped early in good order;
130 Ctrl-C while waiting, the job goes on.
"""


def help_text(program: str = "trainwright launch") -> str:
    """The whole page, for a terminal of 100 columns."""
    groups: dict[str, list[str]] = {}
    for option in OPTIONS:
        groups.setdefault(option.group, []).append(_entry(option))
    sections = [f"{title}:\n" + "\n".join(entries) + "\n" for title, entries in groups.items()]
    return "\n".join((_HEAD.format(program=program), *sections, _TAIL))


def _entry(option: Option) -> str:
    head = "  " + ", ".join(option.names) + (f" {option.metavar}" if option.metavar else "")
    body = textwrap.wrap(_description(option), WIDTH - _COLUMN)
    if len(head) + 2 > _COLUMN:
        return "\n".join((head, *(" " * _COLUMN + line for line in body)))
    return head.ljust(_COLUMN) + f"\n{' ' * _COLUMN}".join(body)


def _description(option: Option) -> str:
    facts = [f"or {name} in the environment" for name in option.environment]
    if option.required:
        facts.insert(0, "required for slurm")
    return option.help + (f" [{'; '.join(facts)}]" if facts else "")
