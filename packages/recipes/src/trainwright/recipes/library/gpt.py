"""GPT: learned positions, LayerNorm, GELU, biases, tied embeddings."""

from functools import partial

from trainwright.recipes.config import ConfigContainer
from trainwright.recipes.config.data import TokenizerConfig
from trainwright.recipes.config.model import ModelConfig
from trainwright.recipes.library.finetune import Finetune, finetune_config, peft, sft
from trainwright.recipes.library.pretrain import Pretrain, pretrain_recipes
from trainwright.recipes.library.recipe import Recipe

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


# Ours: there are no public recipes of these names.
FINETUNE = (
    sft("vanilla_gpt", 1, seq=1024, packed=False, cross_entropy=None),
    peft("vanilla_gpt", 1, seq=1024, packed=False, cross_entropy=None),
)


def on_bytes(row: Finetune) -> ConfigContainer:
    """The same model on rows of text. Its tokenizer needs no file: any folder of JSONL can be trained on as it is."""
    return finetune_config(row, gpt(row.stem), TokenizerConfig(tokenizer_type="ByteLevelTokenizer"))


RECIPES = (
    *pretrain_recipes(PRETRAIN, gpt),
    *(
        Recipe(
            name=row.name,
            alias=row.alias,
            task=row.task,
            world_size=row.gpus,
            hardware="h100",
            build=partial(on_bytes, row),
            own=True,
        )
        for row in FINETUNE
    ),
)
