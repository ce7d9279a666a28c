"""Adapters of every linear layer of every family: exported, loaded by peft, merged, and back."""

from pathlib import Path

import pytest
from tests.runner.test_peft_format import there_and_back

FAMILIES = ["llama", "qwen3", "qwen3_moe", "gpt_oss", "deepseek", "moonlight", "glm45", "glm45, air"]


@pytest.mark.parametrize("apart", [False, True], ids=["fused", "apart"])
@pytest.mark.parametrize("name", FAMILIES)
def test_peft_loads_what_is_exported_and_computes_what_is_merged(name: str, apart: bool, tmp_path: Path) -> None:
    there_and_back(name, tmp_path, apart=apart)
