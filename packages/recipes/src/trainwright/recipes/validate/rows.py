"""Rows of text: which dataset is selected, what of its section acts, and how a row becomes a sequence."""

import math
from typing import Any

from trainwright.recipes.config.data import DatasetConfig
from trainwright.recipes.draft import show
from trainwright.recipes.errors import ConfigError
from trainwright.recipes.nearest import did_you_mean
from trainwright.recipes.presets import DATASET_KWARGS, HUB_KINDS, KWARG_TYPES, PRESETS, TEMPLATE
from trainwright.recipes.validate.plan import Plan


def rows_need_a_tokenizer(plan: Plan) -> None:
    """One that reads text, and for a chat one that has a template's special tokens."""
    dataset, tokenizer = plan.config.dataset, plan.config.tokenizer.tokenizer_type
    if plan.rows and tokenizer == "NullTokenizer":
        raise ConfigError(
            f"tokenizer.tokenizer_type=NullTokenizer reads no text, and --dataset {dataset.kind} is text; "
            f"use ByteLevelTokenizer, or HuggingFaceTokenizer with tokenizer.tokenizer_model=PATH"
        )
    if plan.rows and dataset.preprocessing.style == "chat" and tokenizer != "HuggingFaceTokenizer":
        raise ConfigError(
            f"dataset.preprocessing.style=chat needs the special tokens of a chat template, which {tokenizer} does not "
            f"have; use tokenizer.tokenizer_type=HuggingFaceTokenizer with tokenizer.tokenizer_model=PATH"
        )


def rows_have_a_source(plan: Plan) -> None:
    """Folders for local JSONL, a published dataset (or files of its shape) for a named preset."""
    dataset = plan.config.dataset
    if dataset.kind == "local-jsonl" and not dataset.dataset_root:
        raise ConfigError(
            "--dataset local-jsonl needs dataset.dataset_root=FOLDER, which holds training.jsonl and, for validation, "
            "validation.jsonl"
        )
    if dataset.kind in HUB_KINDS and (dataset.hf_dataset is None or not dataset.hf_dataset.path):
        raise ConfigError(
            f"--dataset {dataset.kind} needs dataset.hf_dataset.path: a hub id, a local clone, or a file of its shape"
        )


def held_out_rows_have_a_source(plan: Plan) -> None:
    """Validation rows are a published split or a share of the training rows; test rows are a published split."""
    dataset = plan.config.dataset
    source = dataset.hf_dataset
    if source is None or dataset.kind not in HUB_KINDS:
        return
    if source.validation_split is not None and source.validation_proportion is not None:
        raise ConfigError(
            "dataset.hf_dataset.validation_split and validation_proportion exclude each other; set one of them to null"
        )
    if dataset.do_validation and source.validation_split is None and source.validation_proportion is None:
        raise ConfigError(
            "dataset.do_validation=true needs dataset.hf_dataset.validation_split or validation_proportion"
        )
    if dataset.do_test and source.test_split is None:
        raise ConfigError("dataset.do_test=true needs dataset.hf_dataset.test_split")


def preset_keeps_its_shape(plan: Plan) -> None:
    """The adapter of a named preset writes the columns, so neither they nor the style are the user's."""
    dataset = plan.config.dataset
    if dataset.kind not in HUB_KINDS:
        return
    own = DatasetConfig(seq_length=1, preprocessing=PRESETS[dataset.kind].fields["preprocessing"]).preprocessing
    for name in ("style", "prompt_column", "completion_column", "messages_column", "tools_column"):
        value, kept = getattr(dataset.preprocessing, name), getattr(own, name)
        if value != kept:
            raise ConfigError(
                f"dataset.preprocessing.{name}={value}: --dataset {dataset.kind} keeps {kept}; "
                f"rows of another shape are read by --dataset local-jsonl"
            )


def loss_fits_style(plan: Plan) -> None:
    """A prompt has a completion, a chat has an assistant."""
    preprocessing = plan.config.dataset.preprocessing
    learnt = {"prompt-completion": "completion", "chat": "assistant"}[preprocessing.style]
    if plan.rows and preprocessing.loss not in (learnt, "all"):
        raise ConfigError(
            f"dataset.preprocessing.loss={preprocessing.loss} does not go with dataset.preprocessing.style="
            f"{preprocessing.style}: it takes {learnt} or all"
        )


def separator_is_not_an_escape(plan: Plan) -> None:
    r"""A shell hands `\n` in plain quotes over as two characters."""
    separator = plan.config.dataset.preprocessing.separator
    if plan.draft.typed("dataset.preprocessing.separator") and separator in (r"\n", r"\n\n", r"\t"):
        plan.draft.warn(
            f"dataset.preprocessing.separator is a backslash and a letter; for a line break type "
            f"$'dataset.preprocessing.separator=\"{separator}\"', of which the shell makes one"
        )


def kwargs_are_consumed(plan: Plan) -> None:
    """Every key of `dataset.dataset_kwargs` is one that the builder of the kind consumes."""
    dataset = plan.config.dataset
    known = DATASET_KWARGS[dataset.kind]
    for key, value in dataset.dataset_kwargs.items():
        path = f"dataset.dataset_kwargs.{key}"
        if key not in known:
            takes = f"it consumes {', '.join(sorted(known))}" if known else "it consumes none"
            raise ConfigError(f"{path}: --dataset {dataset.kind} has no use for it; {takes}{did_you_mean(key, known)}")
        if type(value) is not KWARG_TYPES[key]:
            wanted = {bool: "true or false", dict: "a dictionary {name:value}"}[KWARG_TYPES[key]]
            raise ConfigError(f"{path}={show(value)}: it takes {wanted}")
        if not _finite(value):
            raise ConfigError(f"{path}={show(value)}: numbers have to be finite")
    if TEMPLATE in dataset.dataset_kwargs and dataset.preprocessing.style != "chat":
        raise ConfigError(f"dataset.dataset_kwargs.{TEMPLATE} needs dataset.preprocessing.style=chat")


def _finite(value: Any) -> bool:
    if isinstance(value, dict | list):
        return all(_finite(item) for item in (value.values() if isinstance(value, dict) else value))
    return not isinstance(value, float) or math.isfinite(value)


RULES = (
    rows_have_a_source,
    held_out_rows_have_a_source,
    preset_keeps_its_shape,
    loss_fits_style,
    separator_is_not_an_escape,
    kwargs_are_consumed,
    rows_need_a_tokenizer,
)
