"""GPT: learned positions, LayerNorm, GELU, biases, tied embeddings."""

from trainwright.recipes.config import ConfigContainer
from trainwright.recipes.config.data import TokenizerConfig
from trainwright.recipes.config.model import ModelConfig
from trainwright.recipes.library.pretrain import Pretrain, pretrain_recipes
from trainwright.recipes.library.recipe import Recipe
from trainwright.recipes.library.sft import sft_recipe
from trainwright.recipes.presets import preset_dataset

# Megatron Bridge's recipe leaves the model's sizes to its caller. Here they are GPT-2 small's.
PRETRAIN = (
    Pretrain(
        "vanilla_gpt",
        1,
        mbs=2,
        gbs=32,
        seq=1024,
        iters=300_000,
        eval_interval=500,
        warmup=500,
        cross_entropy=None,
        overlap=False,
        workers=2,
    ),
)


def gpt(stem: str) -> ModelConfig:
    """Sizes of GPT-2 small (12 layers of 768, 12 heads), without dropout."""
    return ModelConfig(
        num_layers=12,
        hidden_size=768,
        num_attention_heads=12,
        normalization="LayerNorm",
        activation_func="gelu",
        add_bias_linear=True,
        share_embeddings_and_output_weights=True,
        position_embedding_type="learned_absolute",
        hidden_dropout=0.0,
        attention_dropout=0.0,
    )


def vanilla_gpt_sft() -> ConfigContainer:
    """The same model on rows of text, unpacked. Ours: there is no public recipe of this name.

    Its tokenizer needs no file, so that any folder of JSONL can be trained on as it is.
    """
    return sft_recipe(
        model=gpt("vanilla_gpt"),
        dataset=preset_dataset("squad", seq_length=1024),
        tokenizer=TokenizerConfig(tokenizer_type="ByteLevelTokenizer"),
    )


RECIPES = (
    *pretrain_recipes(PRETRAIN, gpt),
    Recipe(
        name="vanilla_gpt_sft_1gpu_h100_bf16_config",
        alias="vanilla_gpt_sft_config",
        task="sft",
        world_size=1,
        hardware="h100",
        build=vanilla_gpt_sft,
        own=True,
    ),
)
