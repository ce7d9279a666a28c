"""What is published of the models whose tokenizers recipes name by hub id."""

from trainwright.recipes.library import deepseek, glm45, gpt_oss, llama, qwen3, qwen3_moe

_ARCHITECTURES = (
    (llama.HUB, llama.llama),
    (qwen3.HUB, qwen3.qwen3),
    (qwen3_moe.HUB, qwen3_moe.qwen3_moe),
    (gpt_oss.HUB, gpt_oss.gpt_oss),
    (deepseek.HUB, deepseek.deepseek),
    (glm45.HUB, glm45.glm45),
)


def published_vocabulary(hub_id: str | None) -> int | None:
    """Rows of the published model's embedding; null for an id that no recipe names.

    A tokenizer may know a few tokens fewer: published tables are rounded up.
    """
    for hub, architecture in _ARCHITECTURES:
        for stem, named in hub.items():
            if named == hub_id:
                return architecture(stem).vocab_size
    return None
