"""`trainwright-data prepare` and `inspect`: corpora of `.bin`/`.idx` pairs."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from trainwright.recipes.words import UsageError
from trainwright_trainer.data_signals import stop_cleanly
from trainwright_trainer.sizes import binary

if TYPE_CHECKING:
    from trainwright.datasets.inspection import Inspection
    from trainwright.recipes.config.data import TokenizerConfig

TokenizerType = Literal["ByteLevelTokenizer", "HuggingFaceTokenizer", "TikTokenizer", "NullTokenizer"]
TypeOption = Annotated[TokenizerType, typer.Option("--tokenizer-type", help="As tokenizer.tokenizer_type of a run.")]
ModelOption = Annotated[
    str | None,
    typer.Option("--tokenizer-model", metavar="PATH", help="Folder or file of a Hugging Face or tiktoken tokenizer."),
]
VocabOption = Annotated[
    int | None, typer.Option("--vocab-size", metavar="N", min=1, help="Vocabulary of NullTokenizer.")
]


def prepare(
    inputs: Annotated[
        list[str], typer.Argument(metavar="INPUT", help="Text or JSONL files (.gz, .zst too), or folders of them.")
    ],
    output_prefix: Annotated[Path, typer.Option(metavar="PREFIX", help="Where PREFIX.bin and PREFIX.idx go.")],
    tokenizer_type: TypeOption = "ByteLevelTokenizer",
    tokenizer_model: ModelOption = None,
    vocab_size: VocabOption = None,
    glob: Annotated[
        list[str] | None,
        typer.Option(metavar="PATTERN", help="Of a folder, only names like this: '*.py'. May be repeated."),
    ] = None,
    exclude: Annotated[
        list[str] | None,
        typer.Option(metavar="PATTERN", help="Of a folder, no file or folder named like this. May be repeated."),
    ] = None,
    file_format: Annotated[
        Literal["text", "jsonl"] | None, typer.Option("--format", help="What the inputs are, whatever their names.")
    ] = None,
    document: Annotated[
        Literal["file", "line"], typer.Option(help="Of text: each file is one document, or each line.")
    ] = "file",
    json_key: Annotated[str, typer.Option(metavar="KEY", help="Of JSONL: the key that holds the text.")] = "text",
    append_eod: Annotated[bool, typer.Option(help="End each document with the end-of-document token.")] = True,
    workers: Annotated[
        int | None, typer.Option(metavar="N", min=1, help="Processes; by default one for each CPU.")
    ] = None,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace what stands at PREFIX.")] = False,
) -> None:
    """Turn text into PREFIX.bin and PREFIX.idx."""
    from trainwright.datasets import prepare as preparing

    # An empty word is most often a variable that is not set; as a path it would be all of this directory.
    if "" in inputs:
        raise UsageError("an INPUT is empty: name a file or a folder")
    stop_cleanly()
    summary = preparing.prepare(
        inputs,
        output_prefix,
        _tokenizer(tokenizer_type, tokenizer_model, vocab_size),
        workers=workers or len(os.sched_getaffinity(0)),
        json_key=json_key,
        globs=glob or (),
        excludes=exclude or (),
        file_format=file_format,
        document=document,
        append_eod=append_eod,
        overwrite=overwrite,
        progress=True,
    )
    speed = f"{summary.tokens_per_second:,.0f} tokens/s, {binary(summary.text_bytes / summary.seconds)}/s"
    print(
        f"{summary.prefix}.bin and .idx: {summary.documents:,} documents, {summary.tokens:,} tokens ({summary.dtype})"
    )
    print(f"  from {summary.files:,} files, {binary(summary.input_bytes)}; {binary(summary.text_bytes)} of text")
    if summary.empty_documents:
        print(f"  {summary.empty_documents:,} empty documents left out")
    print(f"  {summary.seconds:.1f} s, {speed}")


def inspect(
    prefixes: Annotated[list[str], typer.Argument(metavar="PREFIX", help="Prefixes of .bin/.idx pairs.")],
    full: Annotated[bool, typer.Option("--full", help="Look at every token id, not at some stretches.")] = False,
    vocab_size: Annotated[int | None, typer.Option(metavar="N", min=1, help="Refuse ids from here up.")] = None,
    show: Annotated[int, typer.Option(min=0, metavar="N", help="Print the first N documents as text.")] = 0,
    tokenizer_type: TypeOption = "ByteLevelTokenizer",
    tokenizer_model: ModelOption = None,
) -> None:
    """Check pairs as a run would, and say what they hold."""
    from trainwright.datasets.inspection import documents, inspect_pair

    for prefix in prefixes:
        found = inspect_pair(prefix, full=full, vocab_size=vocab_size)
        _print_inspection(found)
        if show:
            from trainwright.datasets import build_tokenizer
            from trainwright.datasets.provenance import check_tokenizer

            tokenizer = build_tokenizer(_tokenizer(tokenizer_type, tokenizer_model, found.highest_id + 1))
            check_tokenizer(found.pair, tokenizer)
            for number, ids in enumerate(documents(found.pair, show)):
                print(f"--- document {number}: {len(ids):,} tokens")
                print(tokenizer.detokenize(ids.tolist()).encode("utf-8", "replace").decode("utf-8"))


def _tokenizer(kind: TokenizerType, model: str | None, vocab_size: int | None) -> TokenizerConfig:
    from trainwright.recipes.config.data import TokenizerConfig

    size = vocab_size if kind == "NullTokenizer" else None
    return TokenizerConfig(tokenizer_type=kind, tokenizer_model=model, vocab_size=size)


def _print_inspection(found: Inspection) -> None:
    pair, made = found.pair, found.provenance
    looked_at = "all looked at" if found.full else "16 stretches looked at; --full looks at all"
    average = pair.tokens / pair.sequences
    print(pair.prefix)
    print(f"  {pair.documents:,} documents, {pair.sequences:,} sequences, {pair.tokens:,} tokens")
    print(f"  {found.shortest:,} to {found.longest:,} tokens in a sequence, {average:,.0f} on average")
    print(f"  token ids {found.lowest_id} to {found.highest_id} ({looked_at})")
    print(f"  {pair.dtype}, {binary(found.bytes_on_disk)}")
    if made is not None:
        print(f"  prepared with {made['tokenizer']['class']}, end of document {made['eod']}")
