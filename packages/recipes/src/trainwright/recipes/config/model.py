"""`model`: the architecture and how it is laid over ranks."""

from typing import Literal

from pydantic import ConfigDict, Field

from trainwright.recipes.config.section import Section


class ModelConfig(Section):
    """A text model as the field speaks of it: blocks of attention and feed-forward.

    Names are those of Megatron Core's `TransformerConfig`. Any further field of that class is accepted too; which
    ones exist, and with which type, is known from the catalogue beside this package (`catalogue/`), without torch.
    Sizes are counts of elements unless said otherwise.
    """

    model_config = ConfigDict(extra="allow")

    num_layers: int = Field(ge=1)
    """Transformer blocks (an attention and a feed-forward part each)."""
    hidden_size: int = Field(ge=1)
    """Width of the residual stream."""
    num_attention_heads: int = Field(ge=1)
    num_query_groups: int | None = Field(default=None, ge=1)
    """Key/value heads; null means one for each attention head."""
    kv_channels: int | None = Field(default=None, ge=1)
    """Width of one head; null means hidden_size / num_attention_heads."""
    ffn_hidden_size: int | None = Field(default=None, ge=1)
    """Width of the feed-forward part; null means 4 * hidden_size."""
    vocab_size: int | None = Field(default=None, ge=1)
    """Tokens of the vocabulary before padding; null means the tokenizer's."""
    make_vocab_size_divisible_by: int = Field(default=128, ge=1)
    """The embedding's rows are padded to a multiple of this, and of the tensor parallel size."""
    seq_length: int | None = Field(default=None, ge=1)
    """Tokens of one sequence. Follows `dataset.seq_length`, which owns it; setting another value is refused."""
    max_position_embeddings: int | None = Field(default=None, ge=1)
    """Rows of a learned position table; null means the sequence length."""

    normalization: Literal["LayerNorm", "RMSNorm"] = "LayerNorm"
    layernorm_epsilon: float = Field(default=1e-5, gt=0)
    activation_func: Literal["gelu", "silu", "relu", "quick_gelu", "squared_relu"] = "gelu"
    gated_linear_unit: bool = False
    add_bias_linear: bool = True
    add_qkv_bias: bool = False
    qk_layernorm: bool = False
    share_embeddings_and_output_weights: bool = True
    hidden_dropout: float = Field(default=0.0, ge=0, lt=1)
    attention_dropout: float = Field(default=0.0, ge=0, lt=1)
    init_method_std: float = Field(default=0.02, gt=0)

    position_embedding_type: Literal["learned_absolute", "rope", "none"] = "learned_absolute"
    rotary_base: float = Field(default=10000.0, gt=0)
    rotary_percent: float = Field(default=1.0, gt=0, le=1)
    rope_scaling: bool = False
    """Llama-3 frequency scaling of the rotary embedding."""
    rope_scaling_factor: float = Field(default=8.0, gt=0)
    rope_scaling_low_freq_factor: float = Field(default=1.0, gt=0)
    rope_scaling_high_freq_factor: float = Field(default=4.0, gt=0)
    rope_scaling_original_max_position_embeddings: int = Field(default=8192, ge=1)

    tensor_model_parallel_size: int = Field(default=1, ge=1)
    pipeline_model_parallel_size: int = Field(default=1, ge=1)
    virtual_pipeline_model_parallel_size: int | None = Field(default=None, ge=1)
    """Model chunks on each pipeline rank; null or 1 is the plain 1F1B schedule."""
    context_parallel_size: int = Field(default=1, ge=1)
    expert_model_parallel_size: int = Field(default=1, ge=1)
    expert_tensor_parallel_size: int | None = Field(default=None, ge=1)
    sequence_parallel: bool = False
    """Split activations between tensor parallel ranks along the sequence in norms and dropouts."""

    cross_entropy_loss_fusion: bool = False
    attention_backend: Literal["auto", "flash", "fused", "unfused", "local"] = "auto"
    """Transformer Engine's choice of kernel; our own attention on a CPU has one kernel and ignores `auto` only."""
    deterministic_mode: bool = False
    recompute_granularity: Literal["full", "selective"] | None = None
    recompute_method: Literal["uniform", "block"] | None = None
    recompute_num_layers: int | None = Field(default=None, ge=1)
