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
    glu_linear_offset: float = 0.0
    """Added to the linear half of a gated unit."""
    activation_func_clamp_value: float | None = Field(default=None, gt=0)
    """Bound of a gated unit's halves: the activated one from above, the linear one from both sides."""
    add_bias_linear: bool = True
    add_qkv_bias: bool = False
    qk_layernorm: bool = False
    share_embeddings_and_output_weights: bool = True
    hidden_dropout: float = Field(default=0.0, ge=0, lt=1)
    attention_dropout: float = Field(default=0.0, ge=0, lt=1)
    init_method_std: float = Field(default=0.02, gt=0)

    position_embedding_type: Literal["learned_absolute", "rope", "yarn", "none"] = "learned_absolute"
    """`yarn` is rotary with the `yarn_*` fields. Multi-latent attention takes `rope` and has its own `rope_type`."""
    rotary_base: float = Field(default=10000.0, gt=0)
    rotary_percent: float = Field(default=1.0, gt=0, le=1)
    """Share of a head's channels that is rotated, from the first on."""
    rope_scaling: bool = False
    """Llama-3 frequency scaling of the rotary embedding."""
    rope_scaling_factor: float = Field(default=8.0, gt=0)
    rope_scaling_low_freq_factor: float = Field(default=1.0, gt=0)
    rope_scaling_high_freq_factor: float = Field(default=4.0, gt=0)
    rope_scaling_original_max_position_embeddings: int = Field(default=8192, ge=1)
    yarn_rotary_scaling_factor: float = Field(default=1.0, ge=1)
    """How many times longer than before sequences may be (`position_embedding_type=yarn`)."""
    yarn_original_max_position_embeddings: int = Field(default=4096, ge=1)
    yarn_beta_fast: float = Field(default=32.0, gt=0)
    """Turns within the original length above which a pair of channels keeps its frequency."""
    yarn_beta_slow: float = Field(default=1.0, gt=0)
    """Turns within the original length below which a pair of channels is slowed down by the whole factor."""
    yarn_mscale: float | None = Field(default=None, ge=0)
    """With `yarn_mscale_all_dim`, sets the attention factor; null means 0.1 * ln(scaling factor) + 1."""
    yarn_mscale_all_dim: float | None = Field(default=None, ge=0)
    yarn_correction_range_round_to_int: bool = True
    """Blend between whole pairs of channels."""

    softmax_type: Literal["vanilla", "off-by-one", "learnable"] = "vanilla"
    """Attention sinks: none, a logit of zero beside every row's keys, or a learnt one for each head."""
    window_size: list[int] | None = None
    """[LEFT, 0]: tokens before its own that a token sees; null means all."""
    window_attn_skip_freq: int | list[int] | None = None
    """Which blocks have the window: null means all, N means that every N-th block sees the whole sequence, a list says
    it for each block (1 with the window, 0 without)."""

    multi_latent_attention: bool = False
    """Attention with keys and values from a low-rank latent, as in DeepSeek-V2 (arXiv:2405.04434)."""
    q_lora_rank: int | None = Field(default=None, ge=1)
    """Rank of the queries' latent; null means that queries come from one full matrix."""
    kv_lora_rank: int | None = Field(default=None, ge=1)
    """Rank of the keys' and values' latent."""
    qk_head_dim: int | None = Field(default=None, ge=1)
    """Width of a head's query and key without position."""
    qk_pos_emb_head_dim: int | None = Field(default=None, ge=1)
    """Width of a head's rotated query, and of the rotated key that all heads share."""
    v_head_dim: int | None = Field(default=None, ge=1)
    """Width of a head's value."""
    rope_type: Literal["rope", "yarn"] = "rope"
    """Rotary embedding of multi-latent attention; `yarn` takes the six fields below."""
    rotary_scaling_factor: float = Field(default=1.0, ge=1)
    original_max_position_embeddings: int = Field(default=4096, ge=1)
    beta_fast: float = Field(default=32.0, gt=0)
    beta_slow: float = Field(default=1.0, gt=0)
    mscale: float = Field(default=1.0, ge=0)
    """Of the rotated channels' length, over that of `mscale_all_dim`."""
    mscale_all_dim: float = Field(default=0.0, ge=0)
    """Scales attention's logits by (0.1 * mscale_all_dim * ln(scaling factor) + 1) squared."""

    num_moe_experts: int | None = Field(default=None, ge=1)
    """Experts of a mixture; null means that every block is dense."""
    moe_layer_freq: int | list[int] = 1
    """Which blocks have experts: every N-th from the first on, or a list with 1 (experts) or 0 (dense) for each."""
    moe_ffn_hidden_size: int | None = Field(default=None, ge=1)
    """Width of an expert; null means `ffn_hidden_size`."""
    moe_shared_expert_intermediate_size: int | None = Field(default=None, ge=1)
    """Width of the shared experts, all together; null means none."""
    moe_shared_expert_gate: bool = False
    """Weigh the shared experts' output by a sigmoid of the token."""
    moe_shared_expert_overlap: bool = False
    """Compute shared experts while tokens travel to the others; needs a GPU."""
    moe_router_topk: int = Field(default=2, ge=1)
    """Experts of a token."""
    moe_router_score_function: Literal["softmax", "sigmoid"] = "softmax"
    moe_router_pre_softmax: bool = False
    """Softmax over all experts before the choice; false: over the chosen ones. Sigmoid scores have no such order."""
    moe_router_num_groups: int | None = Field(default=None, ge=1)
    """Groups of experts of which a token first chooses `moe_router_group_topk`; null means one."""
    moe_router_group_topk: int | None = Field(default=None, ge=1)
    moe_router_topk_scaling_factor: float | None = Field(default=None, gt=0)
    """Multiplies the chosen experts' weights."""
    moe_router_enable_expert_bias: bool = False
    """Balance by a bias that takes part in the choice alone, without a loss (arXiv:2408.15664); sigmoid only."""
    moe_router_bias_update_rate: float = Field(default=1e-3, ge=0)
    """Step of that bias at every update, towards experts with fewer tokens than the mean; 0 leaves it as it is."""
    moe_router_dtype: Literal["fp32", "fp64"] | None = None
    """Type in which the router computes; null means that of the activations."""
    moe_router_load_balancing_type: Literal["none", "aux_loss", "seq_aux_loss", "global_aux_loss"] = "aux_loss"
    """Over which tokens the auxiliary loss looks at the balance: of a micro-batch, a sequence, or a global batch."""
    moe_aux_loss_coeff: float = Field(default=0.0, ge=0)
    moe_z_loss_coeff: float | None = Field(default=None, ge=0)
    """Of the squared log-sum-exp of the router's logits (ST-MoE, arXiv:2202.08906)."""
    moe_grouped_gemm: bool = False
    """All experts of a rank in one kernel; needs a GPU."""
    moe_permute_fusion: bool = False
    """Needs a GPU and Transformer Engine."""
    moe_router_fusion: bool = False
    """Needs a GPU and Transformer Engine."""
    moe_token_dispatcher_type: Literal["allgather", "alltoall", "flex"] = "alltoall"
    """`flex` needs GPUs and a package for `moe_flex_dispatcher_backend`."""
    moe_flex_dispatcher_backend: Literal["deepep", "hybridep"] = "deepep"

    mtp_num_layers: int | None = Field(default=None, ge=1)
    """Multi-token prediction: further blocks after the last, each learning one token further ahead; null means none."""
    mtp_loss_scaling_factor: float = Field(default=0.1, ge=0)
    """Weight of the mean of their losses in what is trained on; the logged loss is that of the next token."""

    tensor_model_parallel_size: int = Field(default=1, ge=1)
    pipeline_model_parallel_size: int = Field(default=1, ge=1)
    virtual_pipeline_model_parallel_size: int | None = Field(default=None, ge=1)
    """Model chunks on each pipeline rank; null or 1 is the plain 1F1B schedule."""
    num_layers_in_first_pipeline_stage: int | None = Field(default=None, ge=1)
    """Blocks of the first stage, its model chunks together; the other stages share the rest evenly."""
    num_layers_in_last_pipeline_stage: int | None = Field(default=None, ge=1)
    account_for_embedding_in_pipeline_split: bool = False
    """Count the embedding as a block when blocks are shared out."""
    account_for_loss_in_pipeline_split: bool = False
    """Count the output layer as a block when blocks are shared out."""
    pipeline_model_parallel_layout: str | None = None
    """What each model chunk holds, chunks apart by `|` in the order in which tokens pass them: E embedding, t block, m
    multi-token prediction, L loss. `t*4` is `tttt` and `(t*2|)*3` is `tt|tt|tt|`, as in `Et*3|t*4|t*3mL`."""
    context_parallel_size: int = Field(default=1, ge=1)
    expert_model_parallel_size: int = Field(default=1, ge=1)
    """Ranks between which the experts of a layer are split."""
    expert_tensor_parallel_size: int | None = Field(default=None, ge=1)
    """Ranks between which each expert is split; null means the tensor parallel size."""
    sequence_parallel: bool = False
    """Split activations between tensor parallel ranks along the sequence in norms and dropouts."""

    cross_entropy_loss_fusion: bool = False
    attention_backend: Literal["auto", "flash", "fused", "unfused", "local"] = "auto"
    """Transformer Engine's choice of kernel; our own attention on a CPU has one kernel and ignores `auto` only."""
    deterministic_mode: bool = False
    recompute_granularity: Literal["full", "selective"] | None = None
    recompute_method: Literal["uniform", "block"] | None = None
    recompute_num_layers: int | None = Field(default=None, ge=1)


YARN_FIELDS = tuple(name for name in ModelConfig.model_fields if name.startswith("yarn_"))
"""YaRN's settings for heads of the plain kind, which Megatron Core reads under these names."""
