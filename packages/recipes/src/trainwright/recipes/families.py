"""Which family of models a recipe's name belongs to, by how it begins."""

PREFIXES = {
    "deepseek_": "deepseek",
    "glm45_": "glm",
    "gpt_oss_": "gpt_oss",
    "kimi_": "kimi",
    "llama": "llama",
    "moonlight_": "moonlight",
    "qwen3_": "qwen",
    "vanilla_gpt_": "gpt",
}
"""Beginning -> family, as Megatron Bridge groups them."""

FAMILIES = tuple(sorted(set(PREFIXES.values())))


def family_of(name: str) -> str:
    """The family of a recipe's name. Raises KeyError for a name of none."""
    for prefix, family in PREFIXES.items():
        if name.startswith(prefix):
            return family
    raise KeyError(name)
