"""`trainwright-data show`: what training reads, as text."""

import os
import pty
import subprocess
import sys
from pathlib import Path

import pytest
from tests.apps.sft_folder import PACKED, words, write

from trainwright_trainer.data import main

TOOL = [sys.executable, "-c", "import sys; from trainwright_trainer.data import main; sys.exit(main())"]


def shown(said: list[str], capsys: pytest.CaptureFixture[str]) -> list[str]:
    assert main(["show", *said]) == 0
    return capsys.readouterr().out.splitlines()


def test_what_is_learnt_stands_in_brackets_where_nothing_is_coloured(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """In the order of the file, and to its end: held-out rows are read once."""
    lines = shown([*words(write(tmp_path)), "--split", "valid", "--samples", "9"], capsys)
    file = tmp_path / "validation.jsonl"
    assert [line for line in lines if line.startswith("Q")] == [
        "Q1⟦ bbb!<eod>⟧",
        "Q2⟦ cccccc!<eod>⟧",
        "Q3⟦ ddddddddd!<eod>⟧",
    ]
    assert [line for line in lines if "---" in line] == [f"--- sample {number}" for number in range(3)]
    assert lines[1].startswith(f"{file} line 1: 7 tokens, 6 learnt")


def test_packed_rows_show_where_sequences_begin_and_end(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Each sequence with its line, and the rest of the row."""
    lines = shown([*words(write(tmp_path), *PACKED), "--split", "valid"], capsys)
    file = tmp_path / "validation.jsonl"
    assert lines == [
        "--- sample 0",
        f"sequence 0: {file} line 1: 7 tokens, 6 learnt",
        "Q1⟦ bbb!<eod>⟧",
        f"sequence 1: {file} line 2: 10 tokens, 9 learnt",
        "Q2⟦ cccccc!<eod>⟧",
        f"sequence 2: {file} line 3: 13 tokens, 12 learnt",
        "Q3⟦ ddddddddd!<eod>⟧",
        "sequence 3: 34 padding",
    ]


def test_sequences_that_share_a_row_in_a_batch_are_shown_so(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    in_batch = ["dataset.enable_in_batch_packing=true", "dataset.dataloader_type=cyclic", "-mb", "2"]
    lines = shown([*words(write(tmp_path), *in_batch), "--samples", "1"], capsys)
    assert lines[0] == "--- sample 0 to 1, in one row"
    assert [line.split(":")[0] for line in lines[1::2]] == ["sequence 0", "sequence 1"]


def test_it_shows_what_the_loader_of_a_run_gives_from_any_place_on(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The ids of the run's own micro-batches, in its order, also behind an epoch's end."""
    from trainwright.datasets import build_datasets, build_loader, build_tokenizer
    from trainwright.recipes import resolve
    from trainwright.recipes.words import parse

    said = words(write(tmp_path), "-gb", "4", "-mb", "1")
    lines = shown([*said, "--samples", "6", "--skip", "8"], capsys)
    texts = [line.replace("⟦", "").replace("⟧", "").removesuffix("<eod>") for line in lines if line.startswith("Q")]
    command = parse(said)
    config = resolve(command.selection, command.overrides, world_size=1, device="cpu", flags=command.flags).config
    tokenizer = build_tokenizer(config.tokenizer)
    train, _ = build_datasets(config, tokenizer, train_samples=20, valid_samples=0)
    batches = build_loader(
        train, config, consumed_samples=8, data_parallel_rank=0, data_parallel_size=1, micro_batch_size=1
    )
    wanted = [tokenizer.detokenize(next(batches)["tokens"][0].tolist()) for _ in range(6)]
    assert [text[:63] for text in texts] == [text[:63] for text in wanted]


def test_documents_without_rows_are_shown_too(tmp_path: Path) -> None:
    """In a process of its own, which chooses the device: mock data, all of it learnt but the first id."""
    more = ["--recipe", "vanilla_gpt_pretrain_config", "--device", "cpu", "-sl", "8", "--samples", "1"]
    done = subprocess.run([*TOOL, "show", *more], capture_output=True, text=True, check=True)
    first, about, text = done.stdout.splitlines()
    assert (first, about) == ("--- sample 0", "8 tokens, 8 learnt")
    assert text.count("⟦") == 1
    assert len(text.replace("⟦", " ").replace("⟧", "").split()) == 9
    assert done.stderr == ""


def test_a_terminal_gets_colour_and_obeys_nothing_in_the_data(tmp_path: Path) -> None:
    """An escape sequence in a row is shown, not executed."""
    folder = tmp_path / "data"
    folder.mkdir()
    for name in ("training", "validation"):
        (folder / f"{name}.jsonl").write_text('{"input": "a\\u001b[31mb", "output": "red?"}\n')
    main_end, terminal = pty.openpty()
    environment = {key: value for key, value in os.environ.items() if key != "NO_COLOR"} | {"TERM": "xterm"}
    process = subprocess.Popen(
        [*TOOL, "show", *words(folder), "--samples", "1"], stdout=terminal, env=environment, cwd=tmp_path
    )
    os.close(terminal)
    seen = b""
    while True:
        try:
            block = os.read(main_end, 4096)
        except OSError:  # Linux says so at the end of a terminal
            break
        if not block:
            break
        seen += block
    assert process.wait(timeout=60) == 0
    text = seen.decode()
    assert "a␛[31mb\x1b[32m red?\x1b[0m" in text
    assert "⟦" not in text


@pytest.mark.parametrize(
    ("more", "says"),
    [
        (["--samples", "0"], "--samples"),
        (["--split", "test", "dataset.do_test=false"], "dataset.do_test is false"),
        (["dataset.dataset_root=/nowhere/at/all"], "/nowhere/at/all does not exist"),
        (["--dump-env"], "--dump-env is for run-recipe; leave it out"),
        (["--sampels", "2"], "unknown flag '--sampels'"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_what_cannot_be_shown_is_one_line_and_code_2(
    more: list[str], says: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["show", *words(write(tmp_path), *more)]) == 2
    out, errors = capsys.readouterr()
    assert says in errors
    assert errors.count("\n") == 1
    assert out == ""


def test_special_tokens_are_written_as_the_vocabulary_writes_them(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Also the one that ends a sequence, which is no text elsewhere."""
    from tests.datasets.sft_cases import save_chat_tokenizer, write_jsonl

    template = "{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>{% endfor %}"
    turns = [{"role": "user", "content": "Hm?"}, {"role": "assistant", "content": "Ah."}]
    write_jsonl(tmp_path / "training.jsonl", [{"messages": turns}])
    chat = [
        *("dataset.preprocessing.style=chat", "dataset.preprocessing.loss=assistant", "dataset.do_validation=false"),
        *("tokenizer.tokenizer_type=HuggingFaceTokenizer", "model.vocab_size=512"),
        f"tokenizer.tokenizer_model={save_chat_tokenizer(tmp_path / 'tokenizer', template)}",
    ]
    lines = shown([*words(tmp_path, *chat), "--samples", "1"], capsys)
    assert (
        "".join(lines[2:]).replace("⟦", "").replace("⟧", "")
        == "<|im_start|>userHm?<|im_end|><|im_start|>assistantAh.<|im_end|>"
    )
    assert "Ah.<|im_end|>⟧" in lines[-1]
