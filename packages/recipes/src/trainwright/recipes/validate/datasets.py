"""Token streams, and the files of tokenizers."""

import math

from trainwright.recipes.errors import ConfigError
from trainwright.recipes.validate.plan import Plan

PER_SPLIT = ("train_data_path", "valid_data_path", "test_data_path")


def data_has_a_source(plan: Plan) -> None:
    """Indexed data names its prefixes, in one of two ways, and mock data names none: never the one for the other."""
    dataset = plan.config.dataset
    if plan.rows:
        return
    given = [name for name in ("data_path", *PER_SPLIT) if getattr(dataset, name) is not None]
    for name in given:
        if getattr(dataset, name) in ("", []):
            raise ConfigError(f"dataset.{name} is empty; give the prefix of a .bin/.idx pair")
    if dataset.kind == "mock":
        if given:
            raise ConfigError(f"dataset.{given[0]} has no effect on mock data; add --dataset megatron-indexed")
        return
    if not given:
        raise ConfigError(
            "--dataset megatron-indexed needs dataset.data_path=PREFIX (or dataset.train_data_path=PREFIX, ...): "
            "it never falls back to mock data"
        )
    if "data_path" in given and len(given) > 1:
        raise ConfigError(
            f"dataset.data_path and dataset.{given[1]} exclude each other: one blend, or one for each split"
        )
    if "data_path" not in given and dataset.train_data_path is None:
        raise ConfigError(f"dataset.{given[0]} without dataset.train_data_path: there is nothing to train on")


def split_has_its_shape(plan: Plan) -> None:
    """Shares for train, validation and test: one to three numbers, not negative, train above zero."""
    dataset, draft = plan.config.dataset, plan.draft
    if plan.rows:
        return
    per_split = any(getattr(dataset, name) is not None for name in PER_SPLIT)
    if per_split:
        if draft.typed("dataset.split") and dataset.split is not None:
            raise ConfigError("dataset.split has no effect beside per-split prefixes; leave one of them out")
        return
    if dataset.split is None:
        raise ConfigError("dataset.split is null; give shares for train, validation and test, such as 9999,8,2")
    try:
        shares = [float(share) for share in dataset.split.split(",")]
    except ValueError:
        shares = []
    if not 1 <= len(shares) <= 3 or not all(math.isfinite(share) and share >= 0 for share in shares) or not shares[0]:
        raise ConfigError(
            f"dataset.split={dataset.split!r}: it takes one to three shares for train, validation and test, "
            f"the first above zero, such as 9999,8,2"
        )


def tokenizer_has_its_file(plan: Plan) -> None:
    """A tokenizer that is read from a file names it."""
    tokenizer = plan.config.tokenizer
    reads_file = tokenizer.tokenizer_type in ("HuggingFaceTokenizer", "TikTokenizer")
    if reads_file and not tokenizer.tokenizer_model:
        raise ConfigError(f"tokenizer.tokenizer_type={tokenizer.tokenizer_type} needs tokenizer.tokenizer_model=PATH")
    if not reads_file and tokenizer.tokenizer_model is not None:
        raise ConfigError(f"tokenizer.tokenizer_model has no effect on {tokenizer.tokenizer_type}")


def loader_fits_data(plan: Plan) -> None:
    """Whole global batches are collated from rows; token streams have one length anyhow."""
    if plan.config.dataset.dataloader_type == "batch" and not plan.rows:
        raise ConfigError(
            f"dataset.dataloader_type=batch is for rows of text; {plan.config.dataset.kind} data takes single or cyclic"
        )


RULES = (data_has_a_source, split_has_its_shape, tokenizer_has_its_file, loader_fits_data)
