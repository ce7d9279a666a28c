"""What each name of `--dataset` stands for."""

import pytest
from recipes_runs import GPT, PACKED, SFT, run, value

from trainwright.recipes import Selection, from_yaml, resolve, to_yaml
from trainwright.recipes.comparison import listed
from trainwright.recipes.presets import FINETUNE, HUB_KINDS, KWARG_TYPES, PRESETS, ROW_KINDS, preset_dataset

ROOT = "dataset.dataset_root=/d"

# hub id, configuration, training split, validation share, test split, style, loader processes
PUBLISHED = {
    "squad": ("rajpurkar/squad", None, "train", 0.1, None, "prompt-completion", 1),
    "tulu3": ("allenai/tulu-3-sft-mixture", None, "train", 0.05, None, "chat", 2),
    "coderforge": ("togethercomputer/CoderForge-Preview", "trajectories", "SWE_Rebench", 0.05, None, "chat", 2),
    "openmathinstruct2": ("nvidia/OpenMathInstruct-2", None, "train_1M", 0.05, None, "prompt-completion", 2),
    "openmathinstruct2-thinking": ("nvidia/OpenMathInstruct-2", None, "train_1M", 0.05, None, "chat", 2),
    "gsm8k": ("openai/gsm8k", "main", "train", None, "test", "prompt-completion", 2),
}


def test_every_published_dataset_stands_in_the_table() -> None:
    assert set(PUBLISHED) == set(HUB_KINDS)


@pytest.mark.parametrize("name", PUBLISHED)
def test_a_published_dataset_has_its_public_source(name: str) -> None:
    hub_id, configuration, split, share, test_split, style, workers = PUBLISHED[name]
    dataset = run(recipe=PACKED, dataset=name, device="cuda").config.dataset
    source = dataset.hf_dataset
    assert source is not None
    assert (source.path, source.name, source.split) == (hub_id, configuration, split)
    assert (source.validation_proportion, source.validation_split, source.test_split) == (share, None, test_split)
    assert (dataset.do_validation, dataset.do_test) == (share is not None, test_split is not None)
    assert dataset.preprocessing.style == style
    assert dataset.preprocessing.loss == {"chat": "assistant", "prompt-completion": "completion"}[style]
    assert (dataset.preprocessing.separator, dataset.preprocessing.add_eos, dataset.preprocessing.add_bos) == (
        " ",
        True,
        False,
    )
    assert (dataset.dataloader_type, dataset.num_workers, dataset.random_seed) == ("batch", workers, 5678)
    assert PRESETS[name].hub_id == hub_id and PRESETS[name].licence


@pytest.mark.parametrize("name", ROW_KINDS)
def test_a_preset_takes_the_place_of_the_recipe_s_dataset(name: str) -> None:
    """Nothing of the recipe's source, preprocessing and packing is left; the sequence length is the model's."""
    words = (ROOT,) if name == "local-jsonl" else ()
    dataset = run(*words, recipe=PACKED, dataset=name).config.dataset
    assert (dataset.kind, dataset.seq_length) == (name, 4096)
    assert not dataset.enable_offline_packing
    assert dataset.offline_packing_specs.packed_sequence_size is None
    assert (dataset.hf_dataset is None) == (name == "local-jsonl")
    local = {"dataset_root": "/d"} if words else {}
    # The device's layer has its say on loader processes.
    assert dataset == preset_dataset(name, 4096, **{**local, "num_workers": 0})


@pytest.mark.parametrize("name", PRESETS)
def test_a_preset_survives_yaml_and_says_where_its_values_come_from(name: str) -> None:
    recipe = PACKED if name in ROW_KINDS else GPT
    words = {"local-jsonl": [ROOT], "megatron-indexed": ["dataset.data_path=/d"]}.get(name, [])
    resolved = run(*words, recipe=recipe, dataset=name, device="cuda")
    assert from_yaml(to_yaml(resolved.config)) == resolved.config
    assert set(resolved.sources) == set(listed(resolved.config))
    typed = {word.partition("=")[0] for word in words}
    assert {source for path, source in resolved.sources.items() if path.startswith("dataset.")} <= {
        "dataset preset",
        "recipe",
        "override",
    }
    assert {path for path, source in resolved.sources.items() if source == "override"} == typed
    assert resolved.sources["dataset.seq_length"] == "recipe"


def test_a_trailing_word_lies_over_the_preset() -> None:
    """One leaf of a nested section changes; its neighbours stay the preset's."""
    resolved = run("dataset.hf_dataset.split='train[:8]'", recipe=SFT, dataset="squad")
    assert value(resolved.config, "dataset.hf_dataset.split") == "train[:8]"
    assert value(resolved.config, "dataset.hf_dataset.path") == "rajpurkar/squad"
    assert resolved.sources["dataset.hf_dataset.split"] == "override"
    assert resolved.sources["dataset.hf_dataset.path"] == "dataset preset"


def test_rows_are_for_fine_tuning_and_token_streams_for_pretraining() -> None:
    assert {name for name, preset in PRESETS.items() if preset.modes == FINETUNE} == set(ROW_KINDS)
    assert {name for name in PRESETS if name not in ROW_KINDS} == {"mock", "megatron-indexed"}


def test_every_declared_key_of_dataset_kwargs_has_a_type() -> None:
    assert {key for preset in PRESETS.values() for key in preset.dataset_kwargs} == set(KWARG_TYPES)


def test_a_model_and_a_mode_find_the_fine_tuning_recipe() -> None:
    resolved = resolve(Selection(model="llama32_1b", mode="sft"), [], world_size=None, device="cuda")
    assert resolved.recipe == "llama32_1b_sft_config"
    assert resolved.canonical
    assert value(resolved.config, "dataset.offline_packing_specs.packed_sequence_size") == 4096
    assert resolved.sources["dataset.offline_packing_specs.packed_sequence_size"] == "derived"
