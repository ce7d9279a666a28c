"""Convenience flags: short words for the fields that are set most often."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Flag:
    """One flag of `run-recipe` and the configuration field it sets."""

    names: tuple[str, ...]
    """As typed; every long name is accepted with `-` and with `_` between its words."""
    field: str
    """`section.field`."""
    metavar: str
    help: str

    @property
    def name(self) -> str:
        """The long name, as messages and provenance show it."""
        return self.names[-1]


FLAGS: tuple[Flag, ...] = (
    Flag(("-ms", "--max_steps"), "train.train_iters", "N", "optimizer updates of the whole run"),
    Flag(("-gb", "--global_batch_size"), "train.global_batch_size", "N", "sequences of one update, over all ranks"),
    Flag(("-mb", "--micro_batch_size"), "train.micro_batch_size", "N", "sequences of one forward pass on one rank"),
    Flag(("-sl", "--seq_length"), "dataset.seq_length", "N", "tokens of one sequence; the model follows"),
    Flag(("-tp", "--tensor_model_parallel_size"), "model.tensor_model_parallel_size", "N", "tensor parallel ranks"),
    Flag(("-pp", "--pipeline_model_parallel_size"), "model.pipeline_model_parallel_size", "N", "pipeline stages"),
    Flag(("-cp", "--context_parallel_size"), "model.context_parallel_size", "N", "context parallel ranks"),
    Flag(
        ("-vp", "--virtual_pipeline_model_parallel_size"),
        "model.virtual_pipeline_model_parallel_size",
        "N",
        "model chunks on each pipeline rank",
    ),
    Flag(("-ep", "--expert_model_parallel_size"), "model.expert_model_parallel_size", "N", "expert parallel ranks"),
    Flag(
        ("-etp", "--expert_tensor_parallel_size"),
        "model.expert_tensor_parallel_size",
        "N",
        "tensor parallel ranks of one expert",
    ),
    Flag(("--lr",), "optimizer.lr", "X", "peak learning rate"),
    Flag(("--min_lr",), "optimizer.min_lr", "X", "learning rate after decay"),
    Flag(("--warmup_iters",), "scheduler.lr_warmup_iters", "N", "updates of linear warm-up"),
    Flag(
        ("--pretrained_checkpoint",),
        "checkpoint.pretrained_checkpoint",
        "PATH",
        "weights to start from; counters at zero",
    ),
    Flag(("--save_dir",), "checkpoint.save", "PATH", "where checkpoints go"),
    Flag(("--load_dir",), "checkpoint.load", "PATH", "checkpoint folder to start from"),
    Flag(("--save_interval",), "checkpoint.save_interval", "N", "updates between two checkpoints"),
)


def flag_of(field: str) -> Flag | None:
    """The flag that sets `field`, if one does."""
    return next((flag for flag in FLAGS if flag.field == field), None)
