"""`trainwright-data`, as a program and in this process."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from trainwright_trainer.data import main


@pytest.fixture
def text(tmp_path: Path) -> str:
    (tmp_path / "a.txt").write_bytes("né\n".encode())
    return str(tmp_path / "a.txt")


def left(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def test_prepare_says_what_it_wrote_and_inspect_what_is_there(
    text: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Plain lines where nothing is a terminal."""
    prefix = str(tmp_path / "out")
    assert main(["prepare", text, "--output-prefix", prefix, "--workers", "1"]) == 0
    said, errors = capsys.readouterr()
    assert said.startswith(f"{prefix}.bin and .idx: 1 documents, 5 tokens (uint16)\n  from 1 files, 4 B; 4 B of text\n")
    assert " tokens/s, " in said
    assert errors == ""
    assert main(["inspect", prefix, "--full", "--show", "1"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[:4] == [
        prefix,
        "  1 documents, 1 sequences, 5 tokens",
        "  5 to 5 tokens in a sequence, 5 on average",
        "  token ids 10 to 256 (all looked at)",
    ]
    assert lines[5:] == [
        "  prepared with ByteLevelTokenizer, end of document 256",
        "--- document 0: 5 tokens",
        "né",
        "",
    ]


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["prepare"], "Missing"),
        (["prepare", "{text}"], "--output-prefix"),
        (["prepare", "{text}", "--output-prefix", "{dir}/x", "--document", "page"], "'page' is not one of"),
        (["prepare", "{text}", "--output-prefix", "{dir}/x", "--wrokers", "2"], "--wrokers"),
        (["prepare", "{dir}/b.txt", "--output-prefix", "{dir}/x"], "b.txt does not exist"),
        (["prepare", "", "--output-prefix", "{dir}/x"], "an INPUT is empty"),
        (
            ["prepare", "{text}", "--output-prefix", "{dir}/x", "--tokenizer-type", "HuggingFaceTokenizer"],
            "tokenizer.tokenizer_model is not set: HuggingFaceTokenizer needs a local tokenizer folder",
        ),
        (["inspect", "{dir}/x"], "x.idx and .bin do not exist"),
        (["list", "energon"], "energon is not available yet; available: mock, megatron-indexed, local-jsonl"),
        (["list", "mok"], "gsm8k; did you mean 'mock'?"),
        (["lsit"], "lsit"),
    ],
    ids=" ".join,
)
def test_what_cannot_be_done_is_one_line_and_code_2(
    words: list[str], says: str, text: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([word.format(text=text, dir=tmp_path) for word in words]) == 2
    said, errors = capsys.readouterr()
    assert errors.startswith("trainwright-data: ")
    assert says in errors
    assert errors.count("\n") == 1
    assert said == ""
    assert left(tmp_path) == ["a.txt"]


def test_list_holds_what_a_run_can_name_and_nothing_planned(capsys: pytest.CaptureFixture[str]) -> None:
    from trainwright.recipes.planned import DATASETS_TO_COME
    from trainwright.recipes.presets import MODES

    assert main(["list"]) == 0
    rows = [line.split()[0] for line in capsys.readouterr().out.splitlines() if not line.startswith(" ")]
    assert rows == list(MODES)
    assert not set(rows) & set(DATASETS_TO_COME)


def test_list_says_kind_modes_hub_id_and_licence(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["list", "mock"]) == 0
    assert capsys.readouterr().out.split("\n")[0].split() == ["mock", "source", "selector", "pretrain"]
    assert main(["list", "tulu3"]) == 0
    first, second, _ = capsys.readouterr().out.split("\n")
    assert first.split() == ["tulu3", "named", "preset", "sft/lora/dora", "allenai/tulu-3-sft-mixture"]
    assert "licence: ODC-BY 1.0" in second


def test_help_loads_nothing_heavy() -> None:
    script = (
        "import sys\n"
        "from trainwright_trainer.data import main\n"
        "main(['--help'])\n"
        "heavy = {'torch', 'megatron', 'transformers', 'numpy', 'rich', 'trainwright.datasets', 'trainwright.runner'}\n"
        "print(sorted(heavy & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "[]"


def test_a_cancelled_job_leaves_nothing(tmp_path: Path) -> None:
    """SIGTERM in the middle: hidden scratch files go, workers too."""
    fifo = tmp_path / "a.txt"
    os.mkfifo(fifo)
    command = ["-c", "import sys; from trainwright_trainer.data import main; sys.exit(main())", "prepare", str(fifo)]
    process = subprocess.Popen(
        [sys.executable, *command, "--document", "line", "--output-prefix", str(tmp_path / "out"), "--workers", "2"],
        stderr=subprocess.PIPE,
        text=True,
    )
    endless = subprocess.Popen(f"yes {'x' * 1000} > {fifo}", shell=True)
    while not any(path.stat().st_size for path in tmp_path.glob(".out.bin*")):
        time.sleep(0.05)
    process.send_signal(signal.SIGTERM)
    _, said = process.communicate(timeout=120)
    assert (process.returncode, said) == (1, "trainwright-data: stopped by SIGTERM; nothing was written\n")
    assert left(tmp_path) == ["a.txt"]
    assert endless.wait(timeout=10) != 0
