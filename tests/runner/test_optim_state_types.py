"""The optimizer's state has the configured types where Megatron Core can give it them."""

import pytest

from trainwright.recipes import ConfigContainer, Selection, resolve
from trainwright.runner.testing import run_ranks


def refusals(config: ConfigContainer) -> list[str]:
    """What Megatron Core says of each type, in the order of the four fields. To be called by `run_ranks`."""
    from trainwright.runner.devices import use_device

    use_device("cpu")
    from trainwright.runner.optim.optimizer import optimizer_config

    said = []
    for name, kind in (
        ("main_grads_dtype", "bfloat16"),
        ("main_params_dtype", "float16"),
        ("exp_avg_dtype", "bfloat16"),
        ("exp_avg_sq_dtype", "bfloat16"),
    ):
        optimizer = config.optimizer.model_copy(update={name: kind})
        try:
            optimizer_config(config.model_copy(update={"optimizer": optimizer}))
        except AssertionError as error:
            said.append(str(error))
    return said


@pytest.mark.distributed
def test_each_type_reaches_megatron_core() -> None:
    """Which refuses each by name without the optimizer that has them; that one needs Transformer Engine."""
    config = resolve(Selection(recipe="vanilla_gpt_pretrain_config"), [], world_size=1, device="cpu").config
    (said,) = run_ranks(refusals, 1, config)
    names = [text.split(" ")[0] for text in said]
    assert names == ["main_grads_dtype", "main_params_dtype", "exp_avg_dtype", "exp_avg_sq_dtype"]
