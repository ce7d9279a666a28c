"""Which layer wins, what a word may name, and where each value is said to come from."""

import itertools

import pytest
from recipes_runs import LLAMA, refusal, run, says, value

from trainwright.recipes import Selection, resolve
from trainwright.recipes.comparison import listed
from trainwright.recipes.derive import DISTRIBUTED_OPTIMIZER


def test_each_layer_lies_over_the_one_before() -> None:
    """recipe < dataset preset < device < flag < override, and the record says so."""
    path = "dataset.num_workers"
    assert value(run(device="cuda").config, path) == 2
    assert value(run(device="cpu").config, path) == 0
    assert value(run("dataset.num_workers=3", device="cpu").config, path) == 3
    preset = run(dataset="mock", device="cuda")
    assert preset.sources["dataset.kind"] == "dataset preset"
    assert preset.sources["dataset.seq_length"] == "recipe"
    flags = {"train.train_iters": "1000"}
    assert run(flags=flags).config.train.train_iters == 1000
    assert run("train.train_iters=2000", flags=flags).config.train.train_iters == 2000


def test_the_last_word_for_a_field_wins() -> None:
    assert run("rng.seed=1", "rng={seed:2}", "++rng.seed=3").config.rng.seed == 3


def test_every_value_has_a_source() -> None:
    """The record covers exactly the fields of the configuration."""
    resolved = run("+model.softmax_scale=0.5", "rng.seed=7", "env_vars.A=b", flags={"optimizer.lr": "1e-3"})
    assert set(resolved.sources) == set(listed(resolved.config))
    expected = {
        "model.num_layers": "recipe",
        "model.rotary_base": "default",
        "model.kv_channels": "derived",
        "model.softmax_scale": "override",
        "rng.seed": "override",
        "env_vars.A": "override",
        "env_vars.NCCL_NVLS_ENABLE": "recipe",
        "optimizer.lr": "flag --lr",
        "dist.distributed_backend": "device",
        "scheduler.lr_decay_iters": "derived",
    }
    assert {path: resolved.sources[path] for path in expected} == expected


def test_canonical_means_as_written() -> None:
    """On its own hardware, at its own size, with nothing typed."""
    assert run(device="cuda", world_size=None).canonical
    assert run(device="cuda", world_size=None).world_size == 1
    touched = [
        run(device="cuda", world_size=2),
        run(device="cpu"),
        run("rng.seed=2", device="cuda"),
        run(device="cuda", flags={"optimizer.lr": "1e-3"}),
        run(device="cuda", deterministic=True),
    ]
    assert not any(resolved.canonical for resolved in touched)
    assert run(device="cuda", flags={"optimizer.lr": "3e-4"}, dataset="mock").canonical, "typed as it is written"


def test_what_is_not_as_written_is_listed_with_its_source() -> None:
    """Sizes, words, what follows from them, and what was taken out; nothing else."""
    words = ("rng.seed=2", "~env_vars.NCCL_NVLS_ENABLE")
    changed = run(*words, device="cuda", world_size=2, flags={"train.train_iters": "3000"})
    assert changed.canonical_differences == (
        "world size: 1 -> 2",
        f"train.train_iters: {run().config.train.train_iters} -> 3000 (flag --max_steps)",
        f"scheduler.lr_decay_iters: {run().config.train.train_iters} -> 3000 (derived)",
        "rng.seed: 1234 -> 2 (override)",
        "env_vars.NCCL_NVLS_ENABLE: 0 -> null (taken out)",
    )
    assert run("env_vars.HF_TOKEN=secret", device="cuda").canonical_differences == (
        "env_vars.HF_TOKEN: null -> set (override)",
    )
    on_cpu = run().canonical_differences
    assert "dist.distributed_backend: nccl -> gloo (device)" in on_cpu
    assert all(line.endswith("(device)") for line in on_cpu)


@pytest.mark.parametrize("word", ["ddp={grad_reduce_in_fp32:false}", 'ddp={"grad_reduce_in_fp32": false}',
                                  "+ddp={grad_reduce_in_fp32:false}", "ddp.grad_reduce_in_fp32=false"])  # fmt: skip
def test_a_mapping_given_to_a_section_sets_its_leaves(word: str) -> None:
    """Later stages do not undo it: the precision preset is applied where it stands."""
    for words in itertools.permutations([word, "mixed_precision=bf16_mixed"]):
        resolved = run(*words, device="cuda")
        assert resolved.config.ddp.grad_reduce_in_fp32 is False
        assert resolved.config.mixed_precision.bf16 is True
        assert resolved.sources["ddp.grad_reduce_in_fp32"] == "override"
        assert resolved.config.ddp.use_distributed_optimizer is True


def test_a_precision_preset_sets_the_whole_section() -> None:
    precision = run("mixed_precision=fp32", device="cuda").config.mixed_precision
    assert (precision.bf16, precision.fp16, precision.fp8) == (False, False, None)
    assert run("mixed_precision={fp16:true,bf16:false}", device="cuda").config.mixed_precision.fp16


def test_a_dictionary_is_filled_emptied_and_thinned() -> None:
    recipe = run().config.env_vars
    assert run("env_vars={A:b,'C D':'e=f'}").config.env_vars == recipe | {"A": "b", "C D": "e=f"}
    assert run("env_vars={}").config.env_vars == {}
    assert run("env_vars={}", "env_vars.A=1").config.env_vars == {"A": "1"}
    assert run("~env_vars").config.env_vars == {}
    assert set(recipe) - set(run("~env_vars.NCCL_NVLS_ENABLE").config.env_vars) == {"NCCL_NVLS_ENABLE"}


def test_a_deleted_extra_goes_back_to_its_default() -> None:
    assert value(run(recipe=LLAMA, device="cuda").config, "model.apply_rope_fusion") is True
    assert (
        value(run("~model.apply_rope_fusion", recipe=LLAMA, device="cuda").config, "model.apply_rope_fusion") is False
    )


@pytest.mark.parametrize(
    ("word", "parts"),
    [
        ("train.gbz=4", ("train.gbz", "train has no field 'gbz'")),
        ("train.global_batch_sise=4", ("'global_batch_size'",)),
        ("+train.global_batch_sise=4", ("'global_batch_size'",)),
        ("++train.global_batch_sise=4", ("'global_batch_size'",)),
        ("train={global_batch_sise:4}", ("'global_batch_size'",)),
        ("trian.train_iters=4", ("no section 'trian'", "'train'")),
        ("lr=1", ("'optimizer.lr'",)),
        ("train.lr=1", ("'optimizer.lr'",)),
        ("model.num_layer=1", ("'num_layers'",)),
        ("model.softmax_scal=1", ("'softmax_scale'",)),
        ("train=5", ("train is a section",)),
        ("train=null", ("train is a section",)),
        ("ddp={}", ("sets nothing",)),
        ("train.train_iters.x=1", ("no fields of its own",)),
        ("train.=1", ("train is a section",)),
        ("~train.train_iters", ("cannot be removed",)),
        ("~train", ("train is a section",)),
        ("~train.gbz", ("no field 'gbz'",)),
        ("~env_vars.NCCL_NVLS", ("no env_vars.NCCL_NVLS", "'env_vars.NCCL_NVLS_ENABLE'")),
        ("~env_vars.NCCL_NVLS_ENABLE=0", ("takes no value",)),
        ("~model.softmax_scale", ("not set",)),
        ("mixed_precision=bf16", ("fp32, bf16_mixed, fp16_mixed",)),
        ("mixed_precision=bf16_mixd", ("'bf16_mixed'",)),
        ("mixed_precision={bf17:true}", ("'bf16'",)),
        ("env_vars=x", ("env_vars is a section",)),
        ("dataset.packing_buffer_size=8", ("dataset.packing_buffer_size is not available yet",)),
        ("dataset.preprocessing.seperator=x", ("dataset.preprocessing has no field 'seperator'", "'separator'")),
        ("dataset.preprocessing={seperator:x}", ("dataset.preprocessing.seperator", "'separator'")),
        ("dataset={preprocessing:{seperator:x}}", ("dataset.preprocessing.seperator", "'separator'")),
        ("dataset.preprocesing.style=chat", ("dataset has no field 'preprocesing.style'", "'preprocessing")),
        ("dataset.separator=x", ("did you mean 'dataset.preprocessing.separator'",)),
        ("dataset.preprocessing=chat", ("dataset.preprocessing is a section",)),
        ("dataset.preprocessing=null", ("dataset.preprocessing is a section",)),
        ("dataset.preprocessing={}", ("sets nothing", "dataset.preprocessing")),
        ("dataset.preprocessing.style.x=1", ("dataset.preprocessing.style has no fields of its own",)),
        ("~dataset.preprocessing.style", ("a field of dataset.preprocessing cannot be removed",)),
        ("~dataset.dataset_kwargs.x", ("no dataset.dataset_kwargs.x to delete",)),
        ("dataset.source.load_kwargs.data_files.train=/x", ("dataset.source is not available yet",)),
        ("comm_overlap.tp_comm_overlp=true", ("comm_overlap has no field 'tp_comm_overlp'", "'tp_comm_overlap'")),
        ("model.init_method=normal", ("holds a function", "cannot be set")),
        ("model.params_dtype=bf16", ("a torch type", "cannot be set")),
    ],
)
def test_a_word_that_names_no_field_is_refused(word: str, parts: tuple[str, ...]) -> None:
    says(refusal(word), *parts)


def test_a_known_field_may_stand_behind_a_plus() -> None:
    assert run("+train.train_iters=1000", "+model.softmax_scale=1").config.train.train_iters == 1000


@pytest.mark.parametrize(("typed", "other"), [DISTRIBUTED_OPTIMIZER, DISTRIBUTED_OPTIMIZER[::-1]])
def test_the_distributed_optimizer_is_one_switch(typed: str, other: str) -> None:
    resolved = run(f"{typed}=false")
    assert [value(resolved.config, path) for path in (typed, other)] == [False, False]
    assert (resolved.sources[typed], resolved.sources[other]) == ("override", "derived")
    says(refusal(f"{typed}=false", f"{other}=true"), typed, other)


@pytest.mark.parametrize("path", DISTRIBUTED_OPTIMIZER)
def test_only_adam_is_distributed(path: str) -> None:
    """Megatron Core's distributed optimizer takes no other; a recipe's switch follows, a typed one clashes."""
    assert value(run("optimizer.optimizer=sgd").config, path) is False
    says(refusal("optimizer.optimizer=sgd", f"{path}=true"), f"{path}=true", "optimizer.optimizer=sgd")


def test_what_follows_is_filled_in() -> None:
    """Sequence length, sizes, vocabulary and schedule of a shrunk model."""
    words = ("model.hidden_size=64", "model.num_attention_heads=4", "tokenizer.tokenizer_type=ByteLevelTokenizer")
    config = run(*words, flags={"dataset.seq_length": "128", "train.train_iters": "1000"}).config
    model, scheduler = config.model, config.scheduler
    assert (model.seq_length, model.max_position_embeddings) == (128, 128)
    assert (model.kv_channels, model.num_query_groups, model.ffn_hidden_size) == (16, 4, 256)
    assert (model.vocab_size, config.tokenizer.vocab_size) == (257, None)
    assert (scheduler.lr_decay_iters, config.checkpoint.save_interval) == (1000, 500)


def test_a_tokenizer_that_reads_a_file_leaves_the_vocabulary_open() -> None:
    words = ("tokenizer.tokenizer_type=HuggingFaceTokenizer", "tokenizer.tokenizer_model=/t")
    assert run(*words).config.model.vocab_size is None


def test_a_typed_weight_decay_reaches_the_schedule() -> None:
    """The scheduler sets the decay of every update; the recipe's own would win silently."""
    scheduler = run("optimizer.weight_decay=0").config.scheduler
    assert (scheduler.start_weight_decay, scheduler.end_weight_decay) == (0.0, 0.0)
    says(
        refusal("optimizer.weight_decay=0", "scheduler.end_weight_decay=0.1"), "end_weight_decay=0.1", "weight_decay=0"
    )
    untouched = run().config.scheduler
    assert (untouched.start_weight_decay, untouched.end_weight_decay) == (0.033, 0.033)


def test_an_interleaved_pipeline_of_two_stages_gets_safe_sends() -> None:
    """Batched sends pair up wrongly there, and training diverges without an error."""
    flags = {"model.pipeline_model_parallel_size": "2", "model.virtual_pipeline_model_parallel_size": "2"}
    config = run(world_size=2, flags=flags).config
    assert value(config, "model.overlap_p2p_comm") is True
    assert value(config, "model.batch_p2p_comm") is False
    for word in ("model.overlap_p2p_comm=false", "model.batch_p2p_comm=true"):
        says(refusal(word, world_size=2, flags=flags), word, "interleaved")


def test_deterministic_turns_off_what_is_not() -> None:
    """By flag or by field; a clash with what was typed is an error, and a typed variable stays."""
    by_flag = run(recipe=LLAMA, device="cuda", deterministic=True)
    by_field = run("model.deterministic_mode=true", recipe=LLAMA, device="cuda")
    assert by_flag.config == by_field.config
    assert by_flag.config.model.deterministic_mode
    assert by_flag.sources["model.deterministic_mode"] == "flag --deterministic"
    assert not by_flag.config.model.cross_entropy_loss_fusion
    assert by_flag.config.env_vars["NVTE_ALLOW_NONDETERMINISTIC_ALGO"] == "0"
    says(refusal("model.cross_entropy_loss_fusion=true", device="cuda", deterministic=True), "deterministic run")
    says(refusal("model.deterministic_mode=false", deterministic=True), "deterministic_mode=false", "--deterministic")
    typed = run("env_vars.NCCL_ALGO=Tree", device="cuda", deterministic=True)
    assert typed.config.env_vars["NCCL_ALGO"] == "Tree"


def test_resolve_changes_nothing_that_it_is_given() -> None:
    """Pure: the same words give the same run, and no call leaves anything for the next."""
    selection, words, flags = Selection(recipe=LLAMA), ["rng.seed=3"], {"optimizer.lr": "1e-3"}
    first = resolve(selection, words, world_size=8, device="cpu", flags=flags)
    run("model.num_layers=2", recipe=LLAMA)
    assert resolve(selection, words, world_size=8, device="cpu", flags=flags) == first
    assert (words, flags) == (["rng.seed=3"], {"optimizer.lr": "1e-3"})
