"""`peft`: small matrices beside frozen weights, which alone are trained."""

from typing import Literal

from pydantic import Field

from trainwright.recipes.config.section import Section


class PeftConfig(Section):
    """`peft`: adapters of linear layers. Null means that the weights themselves are trained.

    An adapter adds `alpha / dim * B A x` to a linear layer's output (LoRA, arXiv:2106.09685). DoRA (arXiv:2402.09353)
    scales each row of `W + alpha / dim * B A` to a learnt length as well. Names are Megatron Bridge's.
    """

    scheme: Literal["lora", "dora"] = "lora"
    target_modules: list[str] = Field(
        default_factory=lambda: ["linear_qkv", "linear_proj", "linear_fc1", "linear_fc2"], min_length=1
    )
    """Names of linear layers, of parts of fused ones (`linear_q`, `linear_k`, `linear_v`, `linear_fc1_gate`,
    `linear_fc1_up`), or patterns with `*` over their whole paths, such as `*.layers.0.*.linear_qkv`."""
    exclude_modules: list[str] = Field(default_factory=list)
    """The same of layers that get none, whatever `target_modules` says."""
    dim: int = Field(default=32, ge=1)
    """Rank: rows of A, columns of B."""
    alpha: float = Field(default=32, gt=0)
    """What an adapter adds is multiplied by alpha / dim."""
    dropout: float = Field(default=0.0, ge=0, lt=1)
    """Of an adapter's input, or of what it adds; the layer itself sees all."""
    dropout_position: Literal["pre", "post"] = "pre"
    """`pre`: before A. `post`: after B."""
    lora_A_init_method: Literal["xavier", "kaiming", "normal"] = "xavier"
    """How A begins. `xavier`: normal, variance 2 / (columns + rows). `kaiming`: uniform in
    +-1 / sqrt(columns), as in PEFT. `normal`: of standard deviation `model.init_method_std`."""
    lora_B_init_method: Literal["zero"] = "zero"
    """How B begins: an adapter that changes nothing."""
    initial_adapter: str | None = None
    """Start from this adapter: a directory in PEFT's format, or a native checkpoint of adapters."""
