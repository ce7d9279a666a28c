"""QK-Clip: which logits are seen, what a clip does to them, what is counted, and the same training on more ranks."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.runner.clipping import before_and_after, expected_logits, train_with_logits_of_own_samples
from tests.runner.packed_rows import LENGTHS
from tests.runner.training import corpus, losses, records, train, train_on

from trainwright.metrics_audit.audit import summarize
from trainwright.runner.models.attention_logits import largest_logits
from trainwright.runner.optim.qk_clip import ObservedHeads
from trainwright.runner.testing import run_ranks

pytestmark = pytest.mark.distributed

LATENT = {
    "multi_latent_attention": True,
    "kv_channels": None,
    "num_query_groups": 8,
    "rope_scaling": False,
    "q_lora_rank": 24,
    "kv_lora_rank": 20,
    "qk_head_dim": 16,
    "qk_pos_emb_head_dim": 8,
    "v_head_dim": 12,
    "qk_layernorm": True,
}
KINDS = {
    "a key for each head": {"num_query_groups": 8},
    "grouped queries": {"num_query_groups": 2},
    "biases": {"add_qkv_bias": True},
    "a window": {"window_size": [5, 0]},
    "sinks": {"softmax_type": "learnable"},
    "latents": LATENT,
    "latents, queries from one matrix": LATENT | {"q_lora_rank": None},
}


@given(st.data())
@settings(max_examples=40, deadline=None)
def test_a_heads_largest_logit_is_that_of_all_its_visible_pairs(data):
    groups, per_group = data.draw(st.integers(1, 3)), data.draw(st.integers(1, 3))
    batch, length = data.draw(st.integers(1, 2)), data.draw(st.sampled_from([1, 7, 511, 513]))
    window = data.draw(st.sampled_from([None, 0, 3]))
    random = torch.Generator().manual_seed(data.draw(st.integers(0, 1000)))
    query = torch.randn(batch, groups * per_group, length, 4, generator=random)
    key = torch.randn(batch, groups, length, 4, generator=random)
    causal = torch.ones(length, length, dtype=torch.bool).tril()
    visible = causal if window is None else causal.triu(-window)
    found = largest_logits(query, key, 0.5, None if window is None else visible)
    torch.testing.assert_close(found, expected_logits(query, key, 0.5, visible))


def packed_logits() -> tuple[list[float], list[float]]:
    """Of a row packed with sequences: what attention kept, and what its sequences have one by one."""
    from megatron.core.packed_seq_params import PackedSeqParams
    from megatron.core.transformer.enums import AttnMaskType
    from tests.runner.small_models import LLAMA, configuration, start_groups

    from trainwright.runner.models.attention import SdpaAttention
    from trainwright.runner.models.transformer_config import transformer_config

    config = configuration(LLAMA | {"log_max_attention_logit": True})
    start_groups(config)
    attention = SdpaAttention(transformer_config(config), 1, AttnMaskType.causal)
    torch.manual_seed(0)
    query, key = torch.randn(sum(LENGTHS), 8, 8), torch.randn(sum(LENGTHS), 2, 8)
    bounds = torch.tensor([0, *LENGTHS]).cumsum(0).to(torch.int32)
    attention(query, key, key, packed_seq_params=PackedSeqParams(qkv_format="thd", cu_seqlens_q=bounds))
    parts = zip(query.split(LENGTHS), key.split(LENGTHS), strict=True)
    alone = [
        expected_logits(q.transpose(0, 1)[None], k.transpose(0, 1)[None], attention.scale, visible(len(q)))
        for q, k in parts
    ]
    return attention.current_max_attn_logits.tolist(), torch.stack(alone).amax(0).tolist()


def visible(length: int) -> torch.Tensor:
    """What causality lets queries see, [length, length]."""
    return torch.ones(length, length, dtype=torch.bool).tril()


def test_sequences_of_a_packed_row_do_not_see_each_other():
    kept, alone = run_ranks(packed_logits, 1)[0]
    assert kept == pytest.approx(alone)


@pytest.fixture(scope="module")
def clipped() -> dict[str, list]:
    """By kind: of each rank the threshold, logits before and after, and the count; one rank, then two with TP2."""
    one = run_ranks(before_and_after, 1, KINDS)
    on_two = {name: kind | {"tensor_model_parallel_size": 2, "sequence_parallel": True} for name, kind in KINDS.items()}
    two = run_ranks(before_and_after, 2, on_two)
    return {name: [[found[name] for found in ranks] for ranks in (one, two)] for name in KINDS}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("ranks", [1, 2])
def test_a_clip_takes_the_largest_logit_of_a_group_to_the_threshold(clipped, kind, ranks):
    groups, of_ranks = KINDS[kind].get("num_query_groups", 2), clipped[kind][ranks - 1]
    for threshold, before, after, _ in of_ranks:
        per_group = len(before) // (groups // ranks)
        largest = torch.tensor(before).view(-1, per_group).amax(1).repeat_interleave(per_group)
        scale = (threshold / largest).where(largest > threshold, 1.0)
        torch.testing.assert_close(torch.tensor(after), torch.tensor(before) * scale, rtol=2e-5, atol=1e-6)
    threshold, everywhere = of_ranks[0][0], [logit for _, before, _, _ in of_ranks for logit in before]
    above = sum(logit > threshold for logit in everywhere)
    assert above and [counted for *_, counted in of_ranks] == [ObservedHeads(max(everywhere), above, 8)] * ranks


CLIP = ("model.qk_clip=true", "model.qk_clip_threshold=0.3", "optimizer.lr=0.01", "optimizer.min_lr=0.01")
LATENT_WORDS = tuple(f"model.{name}={'null' if value is None else value}".lower() for name, value in LATENT.items())
TP2 = ("model.tensor_model_parallel_size=2", "model.sequence_parallel=true")
TOPOLOGIES = {
    "TP2": (TP2, ()),
    "PP2": (("model.pipeline_model_parallel_size=2",), ()),
    "DP2": ((), ()),
    "DP2 distributed optimizer, overlapped": (
        ("ddp.use_distributed_optimizer=true", "ddp.overlap_grad_reduce=true", "ddp.overlap_param_gather=true"),
        (),
    ),
    "CP2": (("model.context_parallel_size=2",), ()),
    "latents, TP2": (TP2, LATENT_WORDS),
}


@pytest.fixture(scope="module")
def start(tmp_path_factory):
    """A corpus, and by model: words that name the weights that all start from, and the run on one rank."""
    folder = tmp_path_factory.mktemp("clip")
    data, models = corpus(folder), {}
    for number, words in enumerate([(), LATENT_WORDS]):
        weights, single = folder / f"weights{number}", folder / f"single{number}"
        untouched = ("train.train_iters=1", "optimizer.lr=1e-12", "optimizer.min_lr=1e-12")
        assert run_ranks(train, 1, weights, data, *words, *untouched) == [0]
        models[words] = ((*words, f"checkpoint.pretrained_checkpoint={weights / 'checkpoints'}"), single)
        assert run_ranks(train, 1, single, data, *models[words][0], *CLIP) == [0]
    return data, models


def observed(run_dir) -> list[tuple[float, int, int]]:
    """What the log says of heads, update by update."""
    clips = [record["qk_clip"] for record in records(run_dir) if record["event"] == "train"]
    assert {clip["threshold"] for clip in clips} == {0.3}
    return [(clip["max_logit"], clip["clipped_head_updates"], clip["observed_head_updates"]) for clip in clips]


def worst(one, other) -> float:
    """The largest relative difference of losses."""
    reference, found = losses(one), losses(other)
    assert sorted(reference) == sorted(found)
    return max(abs(found[step] - loss) / loss for step, loss in reference.items())


@pytest.mark.parametrize("name", TOPOLOGIES)
def test_clipping_is_the_same_on_more_ranks(start, tmp_path, name):
    layout, model = TOPOLOGIES[name]
    data, models = start
    words, single = models[model]
    assert run_ranks(train_on, 2, 2, tmp_path / "run", data, *words, *CLIP, *layout) == [0, 0]
    assert worst(single, tmp_path / "run") < 1e-5
    for (logit, clipped_heads, heads), (logit_here, clipped_here, heads_here) in zip(
        observed(single), observed(tmp_path / "run"), strict=True
    ):
        assert heads == heads_here == 4 * 8  # blocks and heads of the whole model
        assert clipped_heads == clipped_here
        assert logit_here == pytest.approx(logit, rel=1e-4)
    assert summarize(tmp_path / "run", expect_step=10)["qk_clip"]["clipped_fraction"] > 0


def test_ranks_that_clip_by_their_own_samples_do_not_pass_the_gate(start, tmp_path):
    data, models = start
    words, single = models[()]
    assert run_ranks(train_with_logits_of_own_samples, 2, 2, tmp_path / "run", data, *words, *CLIP) == [0, 0]
    assert worst(single, tmp_path / "run") > 2e-5


def test_logits_can_be_watched_without_touching_them(start, tmp_path):
    data, models = start
    words, _ = models[()]
    for name, watch in (("watched", ("model.log_max_attention_logit=true",)), ("not", ())):
        assert run_ranks(train, 1, tmp_path / name, data, *words, "train.train_iters=3", *watch) == [0]
    assert losses(tmp_path / "watched") == losses(tmp_path / "not")
    watched, unwatched = (
        next(record["qk_clip"] for record in records(tmp_path / name) if record["event"] == "train")
        for name in ("watched", "not")
    )
    assert watched["max_logit"] > 0 and watched["threshold"] is None
    assert (watched["clipped_head_updates"], watched["observed_head_updates"]) == (0, 32)
    assert unwatched == {
        "threshold": None,
        "max_logit": None,
        "clipped_head_updates": 0,
        "observed_head_updates": 0,
    }
