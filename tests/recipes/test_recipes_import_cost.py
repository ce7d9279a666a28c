"""What is loaded, and when."""

import subprocess
import sys

HEAVY = ("pydantic", "hydra", "omegaconf", "yaml")
FORBIDDEN = ("torch", "megatron", "numpy", "transformers")


def loaded_by(code: str) -> set[str]:
    program = f"import sys\n{code}\nprint(*{{name.partition('.')[0] for name in sys.modules}})"
    done = subprocess.run([sys.executable, "-c", program], check=True, capture_output=True, text=True)
    return set(done.stdout.split())


def test_importing_the_package_and_its_flags_loads_nothing_heavy() -> None:
    """The help of a command shows the flags, and must be quick."""
    loaded = loaded_by("import trainwright.recipes\ntrainwright.recipes.FLAGS")
    assert not loaded & {*HEAVY, *FORBIDDEN}


def test_resolving_never_loads_torch() -> None:
    """A login node has none."""
    loaded = loaded_by(
        "from trainwright.recipes import *\n"
        "run = resolve(Selection(recipe='vanilla_gpt_pretrain_config'), ['train.train_iters=1000'],"
        " world_size=1, device='cpu')\n"
        "estimate(run), from_yaml(to_yaml(run.config)), shaping_differences(run.config, run.config)"
    )
    assert loaded >= set(HEAVY)
    assert not loaded & set(FORBIDDEN)
