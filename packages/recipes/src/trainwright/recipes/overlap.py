"""What section `comm_overlap` means for a topology: the switches of `ddp` and `model` that Megatron Core reads."""

from trainwright.recipes.draft import DERIVED, Draft

BUCKET = 128 * 2**20
"""Parameters of a bucket whose reduction hides behind the backward pass."""

OF_DDP = ("overlap_grad_reduce", "overlap_param_gather", "align_param_gather")
"""Fields of `comm_overlap` that are also fields of `ddp`."""


def settle_overlap(draft: Draft, ranks: int) -> None:
    """Lay what the section says, or leaves to the topology, over fields that nobody typed.

    The rules are Megatron Bridge's: gradients and weights travel behind computation where data parallel ranks share
    an optimizer's state, all stages gather at once where the pipeline is interleaved, and only such a pipeline sends
    behind computation.
    """
    if "comm_overlap.tp_comm_overlap" not in draft.values:
        return
    tensor, stages, context = (
        draft[f"model.{name}_parallel_size"] for name in ("tensor_model", "pipeline_model", "context")
    )
    interleaved = stages > 1 and (draft["model.virtual_pipeline_model_parallel_size"] or 1) > 1
    if draft["ddp.use_distributed_optimizer"] and ranks > tensor * stages * context:
        _data_parallel(draft, interleaved=interleaved)
    _put(draft, "model.overlap_p2p_comm", interleaved)
    _put(draft, "model.batch_p2p_comm", stages > 1 and not interleaved)
    if tensor == 1 or not draft["model.sequence_parallel"]:
        _put(draft, "comm_overlap.tp_comm_overlap", False)


def _data_parallel(draft: Draft, *, interleaved: bool) -> None:
    for name, otherwise in zip(OF_DDP, (True, True, interleaved), strict=True):
        said = draft[f"comm_overlap.{name}"]
        _put(draft, f"ddp.{name}", otherwise if said is None else said)
    if not draft["ddp.overlap_grad_reduce"]:
        # Without buckets there is nothing to gather them behind.
        _put(draft, "ddp.overlap_param_gather", False)
    _put(draft, "ddp.bucket_size", BUCKET)


def _put(draft: Draft, path: str, value: bool | int) -> None:
    if not draft.typed(path) and draft[path] != value:
        draft.put(path, value, DERIVED)
