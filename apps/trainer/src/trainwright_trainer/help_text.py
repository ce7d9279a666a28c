"""`run-recipe --help`, made from the table of words."""

from collections.abc import Callable, Iterable

from trainwright.recipes.words import CONVENIENCE, RUNNING, SELECTION, Option

HEAD = """\
run-recipe: turn a recipe into a checked configuration, and train it on Megatron Core.

  run-recipe (--recipe NAME | --model STEM --mode MODE) [flags] [KEY=VALUE ...]
  python -m torch.distributed.run --nproc_per_node=2 -m trainwright_trainer --recipe NAME [flags] [KEY=VALUE ...]
"""

TAIL = """\
Flags and KEY=VALUE words stand in any order. A long flag may be spelt with - or _ and is never abbreviated;
its value follows as the next word or after =. A flag may be repeated only with the same value.

KEY=VALUE sets any field of the configuration in Hydra's grammar: train.eval_iters=4, model.rope_scaling=true,
'dataset.data_path=[/data/a,/data/b]'. Precedence, weakest first: recipe, --dataset, device, flags, KEY=VALUE.

Exit codes: 0 done (or already finished), 1 failed, 2 refused before the first step, 75 stopped early in good
order: start the same command again. TRAINWRIGHT_DEBUG=1 shows the traceback of an error.
"""


def help_text() -> str:
    """The whole page."""
    sections = (
        ("Selection", _rows(SELECTION, lambda option: option.help)),
        ("Run", _rows(RUNNING, lambda option: option.help)),
        ("Convenience flags and the fields they set", _rows(CONVENIENCE, lambda option: option.sets)),
    )
    return HEAD + "".join(f"\n{title}:\n{rows}" for title, rows in sections) + "\n" + TAIL


def _rows(options: Iterable[Option], explain: Callable[[Option], str]) -> str:
    left = {option: f"{', '.join(option.names)} {option.metavar or ''}".rstrip() for option in options}
    width = max(map(len, left.values()))
    return "".join(f"  {text:<{width}}  {explain(option)}\n" for option, text in left.items())
