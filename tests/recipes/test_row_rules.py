"""What rows of text and packing refuse, derive and warn of."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st
from recipes_runs import GPT, LLAMA, PACKED, SFT, refusal, run, says, value

from trainwright.recipes import ConfigError, Selection, resolve, shaping_differences
from trainwright.recipes.packing import alignment

TP, CP, SP = "model.tensor_model_parallel_size", "model.context_parallel_size", "model.sequence_parallel"
ROOT = "dataset.dataset_root=/d"
OFFLINE, IN_BATCH = "dataset.enable_offline_packing=true", "dataset.enable_in_batch_packing=true"
PAD = "dataset.offline_packing_specs.pad_seq_to_mult"
SIZE = "dataset.offline_packing_specs.packed_sequence_size"


EXPERTS = "model.num_moe_experts=4 model.moe_token_dispatcher_type=allgather model.expert_model_parallel_size=2"


@pytest.mark.parametrize(
    ("words", "ranks", "refused"),
    [
        ("", 2, True),
        ("dataset.dataset_kwargs.pad_to_max_length=true", 2, False),
        (f"{IN_BATCH} train.micro_batch_size=2", 2, True),
        ("model.moe_token_dispatcher_type=alltoall", 2, False),
        # Ranks that share one row have equally many of its tokens.
        (f"{TP}=2 {SP}=true model.expert_tensor_parallel_size=1", 2, False),
    ],
)
def test_ranks_that_gather_tokens_have_rows_of_one_length(words: str, ranks: int, refused: bool) -> None:
    words = f"{EXPERTS} {words} train.global_batch_size=8"
    if refused:
        says(refusal(*words.split(), recipe=SFT, world_size=ranks), "allgather", "alltoall", "pad_to_max_length=true")
    else:
        run(*words.split(), recipe=SFT, world_size=ranks)


@pytest.mark.parametrize(
    ("recipe", "dataset", "words", "parts"),
    [
        # Which fields a kind reads.
        (GPT, None, "dataset.hf_dataset.split=x", ("dataset.hf_dataset.split", "mock data", "squad")),
        (GPT, "mock", "dataset.do_validation=false", ("do_validation has no effect on mock data",)),
        (GPT, "mock", "dataset.preprocessing.add_bos=true", ("preprocessing.add_bos", "mock data")),
        (GPT, "mock", OFFLINE, ("enable_offline_packing", "mock data")),
        (GPT, "megatron-indexed", f"dataset.data_path=/d {IN_BATCH}", ("enable_in_batch_packing", "megatron-indexed")),
        (GPT, "mock", "dataset.drop_last=true", ("drop_last", "mock data")),
        (GPT, "mock", "dataset.dataset_root=/d", ("dataset_root", "local-jsonl")),
        (GPT, "mock", "dataset.dataloader_type=batch", ("dataloader_type=batch", "mock data", "single or cyclic")),
        (SFT, None, "dataset.data_path=/x", ("dataset.data_path", "squad data", "megatron-indexed")),
        (SFT, None, "dataset.split=1,1", ("dataset.split", "squad data")),
        (SFT, None, "dataset.eod_mask_loss=true", ("eod_mask_loss", "squad data")),
        (SFT, None, "dataset.reset_position_ids=true", ("reset_position_ids", "squad data")),
        (SFT, "squad", ROOT, ("dataset_root", "squad data", "local-jsonl")),
        (SFT, "local-jsonl", f"{ROOT} dataset.hf_dataset.path=x", ("hf_dataset.path", "local-jsonl data", "squad")),
        # Which kind it is.
        (SFT, None, "dataset.kind=tulu3", ("dataset.kind=tulu3", "--dataset tulu3")),
        (SFT, None, "dataset.kind=mock", ("dataset.kind=mock serves --mode pretrain, not sft",)),
        (GPT, None, "dataset.kind=squad", ("dataset.kind=squad serves --mode sft, lora, dora, not pretrain",)),
        # Where rows come from.
        (SFT, "local-jsonl", "", ("needs dataset.dataset_root=FOLDER", "training.jsonl")),
        (SFT, "local-jsonl", "dataset.dataset_root=[]", ("needs dataset.dataset_root",)),
        (SFT, "squad", "dataset.hf_dataset=null", ("--dataset squad needs dataset.hf_dataset.path",)),
        (SFT, "squad", "dataset.hf_dataset.path=", ("needs dataset.hf_dataset.path",)),
        (SFT, "squad", "dataset.hf_dataset.validation_split=validation", ("exclude each other", "null")),
        (SFT, "squad", "dataset.hf_dataset.validation_proportion=null", ("dataset.do_validation=true needs",)),
        (SFT, "squad", "dataset.do_test=true", ("dataset.do_test=true needs dataset.hf_dataset.test_split",)),
        (SFT, "gsm8k", "dataset.do_validation=true", ("dataset.do_validation=true needs",)),
        # How a row becomes a sequence.
        (SFT, "squad", "dataset.preprocessing.style=chat", ("squad keeps prompt-completion", "local-jsonl")),
        (PACKED, "tulu3", "dataset.preprocessing.messages_column=m", ("tulu3 keeps messages",)),
        (SFT, "squad", "dataset.preprocessing.loss=assistant", ("prompt-completion", "completion or all")),
        (PACKED, "tulu3", "dataset.preprocessing.loss=completion", ("style=chat", "assistant or all")),
        (SFT, None, "tokenizer.tokenizer_type=NullTokenizer tokenizer.vocab_size=9", ("reads no text", "ByteLevel")),
        (SFT, "tulu3", "", ("style=chat", "ByteLevelTokenizer", "tokenizer_type=HuggingFaceTokenizer")),
        # Keys of an implementation.
        (GPT, "mock", "dataset.dataset_kwargs.a=1", ("dataset.dataset_kwargs.a", "mock", "consumes none")),
        (SFT, None, "dataset.dataset_kwargs.pad_to_max_lenght=true", ("consumes pad_to", "'pad_to_max_length'")),
        (SFT, None, "dataset.dataset_kwargs.pad_to_max_length=1", ("true or false",)),
        (SFT, "squad", "dataset.dataset_kwargs.chat_template_kwargs={a:1}", ("squad has no use for it",)),
        (PACKED, "tulu3", "dataset.dataset_kwargs.chat_template_kwargs=1", ("a dictionary",)),
        (PACKED, "tulu3", "dataset.dataset_kwargs.chat_template_kwargs={a:[nan]}", ("finite",)),
        (
            SFT,
            "local-jsonl",
            f"{ROOT} dataset.dataset_kwargs.chat_template_kwargs={{a:1}}",
            ("chat_template_kwargs needs dataset.preprocessing.style=chat",),
        ),
        # Packing.
        (PACKED, None, IN_BATCH, ("exclude each other",)),
        (SFT, None, f"{OFFLINE} train.micro_batch_size=2", ("train.micro_batch_size=1 (-mb), not 2",)),
        (SFT, None, f"{IN_BATCH} dataset.dataloader_type=single", ("micro_batch_size (-mb) of 2 or more",)),
        (SFT, None, f"{IN_BATCH} train.micro_batch_size=2", ("single or cyclic, not batch",)),
        (SFT, None, f"{OFFLINE} {SIZE}=1022 {PAD}=4", ("packed_sequence_size=1022", "pad_seq_to_mult=4")),
        (SFT, None, f"{OFFLINE} {SIZE}=512", ("packed_sequence_size=512", "dataset.seq_length=1024")),
        # The loss.
        (SFT, None, "model.calculate_per_token_loss=false", ("calculate_per_token_loss=false", "dataset.kind=squad")),
        (GPT, None, "dataset.eod_mask_loss=true model.calculate_per_token_loss=false", ("eod_mask_loss=true",)),
    ],
)
def test_a_run_on_rows_that_cannot_work_is_refused(
    recipe: str, dataset: str | None, words: str, parts: tuple[str, ...]
) -> None:
    says(refusal(*words.split(), recipe=recipe, dataset=dataset), *parts)


@pytest.mark.parametrize(
    ("recipe", "dataset", "words"),
    [
        (GPT, "mock", "dataset.do_validation=true dataset.enable_offline_packing=false"),
        (GPT, "mock", "dataset.dataset_kwargs={}"),
        (SFT, None, "dataset.mmap_bin_files=true dataset.split=null"),
        (SFT, None, "dataset.kind=squad"),
        (SFT, "local-jsonl", "dataset.dataset_root=[0.3,/a,0.7,/b]"),
        (SFT, "local-jsonl", f"{ROOT} dataset.preprocessing.prompt_column=question"),
        (PACKED, "local-jsonl", f"{ROOT} dataset.preprocessing.style=chat dataset.preprocessing.loss=all"),
        (SFT, "squad", "dataset.hf_dataset.path=/data/squad dataset.hf_dataset.revision=abc"),
        (
            SFT,
            "squad",
            "dataset.hf_dataset.validation_split=validation dataset.hf_dataset.validation_proportion=null",
        ),
        (PACKED, "tulu3", "dataset.dataset_kwargs={chat_template_kwargs:{enable_thinking:false,n:1.5}}"),
        (SFT, None, f"{OFFLINE} {SIZE}=4096"),
        (SFT, None, f"{IN_BATCH} dataset.dataloader_type=cyclic train.micro_batch_size=4"),
        (PACKED, None, f"{IN_BATCH.replace('true', 'false')}"),
    ],
)
def test_its_neighbour_passes(recipe: str, dataset: str | None, words: str) -> None:
    assert not run(*words.split(), recipe=recipe, dataset=dataset).warnings


@pytest.mark.parametrize(
    ("recipe", "dataset", "words", "named", "needs"),
    [
        (SFT, None, f"{SIZE}=4096", SIZE, "enable_offline_packing=true"),
        (SFT, None, "dataset.preprocessing.chat_template=/t", "dataset.preprocessing.chat_template", "style=chat"),
        (PACKED, "tulu3", "dataset.preprocessing.separator=x", "dataset.preprocessing.separator", "prompt-completion"),
        (SFT, "gsm8k", "validation.eval_interval=5", "validation.eval_interval", "do_validation=true"),
        (
            PACKED,
            None,
            "dataset.dataset_kwargs.pad_to_max_length=true",
            "dataset.dataset_kwargs.pad_to_max_length",
            "unpacked sequences",
        ),
        (LLAMA, None, "dataset.reset_position_ids=true", "dataset.reset_position_ids", "learned_absolute"),
    ],
)
def test_a_setting_that_nothing_reads_is_named(
    recipe: str, dataset: str | None, words: str, named: str, needs: str
) -> None:
    (warning,) = run(*words.split(), recipe=recipe, dataset=dataset).warnings
    says(warning, f"{named} has no effect without ", needs)


def test_an_escape_that_the_shell_left_alone_is_named() -> None:
    (warning,) = run(r"dataset.preprocessing.separator='\n'", recipe=SFT).warnings
    says(warning, "a backslash and a letter", """$'dataset.preprocessing.separator="\\n"'""")


def test_the_loss_is_a_mean_over_all_learnt_tokens() -> None:
    """For rows, and for token streams with a mask; never averaged by a collective."""
    for words, recipe in (((), SFT), (("dataset.eod_mask_loss=true",), LLAMA)):
        resolved = run(*words, recipe=recipe, device="cuda")
        assert value(resolved.config, "model.calculate_per_token_loss") is True
        assert resolved.sources["model.calculate_per_token_loss"] == "derived"
        assert resolved.config.ddp.average_in_collective is False
        says(
            refusal(*words, "ddp.average_in_collective=true", recipe=recipe, device="cuda"),
            "ddp.average_in_collective=true",
            "calculate_per_token_loss",
        )
    assert value(run(recipe=LLAMA, device="cuda").config, "model.calculate_per_token_loss") is None
    assert run(recipe=LLAMA, device="cuda").config.ddp.average_in_collective is True


def test_a_chat_learns_its_assistant() -> None:
    words = (ROOT, "dataset.preprocessing.style=chat")
    resolved = run(*words, recipe=PACKED, dataset="local-jsonl")
    assert resolved.config.dataset.preprocessing.loss == "assistant"
    assert resolved.sources["dataset.preprocessing.loss"] == "derived"
    says(
        refusal(*words, "dataset.preprocessing.loss=completion", recipe=SFT, dataset="local-jsonl"), "assistant or all"
    )


# Worked by hand: lcm(2*CP if CP>1, CP*TP if SP and TP>1, 16 if fp8).
ALIGNMENTS = [
    ((1, 1, False, False), 1),
    ((4, 1, False, False), 1),
    ((4, 1, True, False), 4),
    ((1, 2, False, False), 4),
    ((1, 4, False, False), 8),
    ((2, 2, True, False), 4),
    ((4, 2, True, False), 8),
    ((3, 2, True, False), 12),
    ((3, 4, True, False), 24),
    ((1, 1, False, True), 16),
    ((3, 4, True, True), 48),
]


@pytest.mark.parametrize(("topology", "expected"), ALIGNMENTS)
def test_the_multiple_of_a_sequence(topology: tuple[int, int, bool, bool], expected: int) -> None:
    assert alignment(*topology) == expected


@given(st.integers(1, 8), st.integers(1, 8), st.booleans(), st.booleans())
def test_an_aligned_sequence_can_be_cut(tp: int, cp: int, sequence_parallel: bool, fp8: bool) -> None:
    """Property: in two pieces a context parallel rank, each rank's part between tensor parallel ranks; and in no
    smaller multiple."""

    def cuts(length: int) -> bool:
        pieces = cp == 1 or length % (2 * cp) == 0
        parts = not (sequence_parallel and tp > 1) or (length % cp == 0 and length // cp % tp == 0)
        return pieces and parts and (not fp8 or length % 16 == 0)

    multiple = alignment(tp, cp, sequence_parallel, fp8)
    assert [length for length in range(1, 2 * multiple + 1) if cuts(length)] == [multiple, 2 * multiple]


@given(st.sampled_from([1, 2, 4]), st.sampled_from([1, 2, 4]), st.booleans(), st.integers(1, 64), st.integers(1, 160))
def test_accepted_packing_fits_its_topology(tp: int, cp: int, sequence_parallel: bool, pad: int, size: int) -> None:
    """Property: what is accepted has a padding of whole pieces, and rows of whole paddings."""
    grid = (f"{TP}={tp}", f"{CP}={cp}", f"{SP}={sequence_parallel}")
    words = (OFFLINE, *grid, "dataset.seq_length=64", f"{PAD}={pad}", f"{SIZE}={size}")
    try:
        config = resolve(Selection(recipe=SFT), words, world_size=tp * cp, device="cpu").config
    except ConfigError as error:
        assert len(str(error).splitlines()) == 1
        return
    assert pad % alignment(tp, cp, config.model.sequence_parallel, False) == 0
    assert size % pad == 0 and size >= 64


def test_padding_and_row_size_follow_the_topology() -> None:
    words = (OFFLINE, f"{TP}=4", f"{SP}=true", f"{CP}=2")
    resolved = run(*words, recipe=SFT, world_size=8)
    assert (value(resolved.config, PAD), value(resolved.config, SIZE)) == (math.lcm(2 * 2, 2 * 4), 1024)
    assert (resolved.sources[PAD], resolved.sources[SIZE]) == ("derived", "derived")
    message = refusal(*words, f"{PAD}=4", recipe=SFT, world_size=8)
    says(message, "pad_seq_to_mult=4 is not a multiple of 8", "tensor 4 x context 2 parallel")


def test_a_packed_run_moves_to_another_topology_when_its_padding_was_typed() -> None:
    """Another padding packs other rows, and so trains in another order: that is said, and can be avoided."""
    one = run(OFFLINE, recipe=SFT).config
    four = run(OFFLINE, f"{CP}=2", recipe=SFT, world_size=2).config
    assert shaping_differences(one, four) == [f"{PAD}: 1 -> 4"]
    typed = [run(OFFLINE, f"{PAD}=4", *words, recipe=SFT, world_size=2).config for words in ((), (f"{CP}=2",))]
    assert shaping_differences(*typed) == []


def test_packing_in_the_batch_validation_and_duration_do_not_shape_a_run_on_rows() -> None:
    """Rows are shuffled by epoch, whatever the length of the run; the schedule was typed."""
    base = ("scheduler.lr_decay_iters=1000", "train.micro_batch_size=2", "dataset.dataloader_type=single")
    other = (IN_BATCH, "train.train_iters=2000", "dataset.do_validation=false")
    before, after = run(*base, recipe=SFT).config, run(*base, *other, recipe=SFT).config
    assert shaping_differences(before, after) == []
