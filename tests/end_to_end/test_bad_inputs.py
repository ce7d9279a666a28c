"""Every wrong input of a user's gets one line that says what to do, the right exit code, and leaves nothing behind.

Each row is typed twice where it can be: as a run and as a dry run, which has to refuse what the run would.
"""

import json
import os
import shlex
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from trainwright.metrics_audit.writer import SessionLog
from trainwright.recipes import resolve
from trainwright.recipes.words import parse
from trainwright.runner import directory
from trainwright_trainer.run_recipe import main

GPT = "--recipe vanilla_gpt_pretrain_config --device cpu --warmup_iters 0"
LLAMA = "--recipe llama32_1b_pretrain_config --device cpu"
TINY = (
    f"{GPT} -ms 2 -gb 2 -mb 1 -sl 32 model.num_layers=2 model.hidden_size=32 model.num_attention_heads=4 "
    "model.make_vocab_size_divisible_by=8 validation.eval_interval=null"
)
INDEXED = f"{TINY} --dataset megatron-indexed tokenizer.tokenizer_type=ByteLevelTokenizer tokenizer.vocab_size=null"


@dataclass(frozen=True)
class Bad:
    """A command line, what the one line on stderr has to say, and the surroundings that make it wrong."""

    name: str
    words: str
    says: tuple[str, ...]
    ranks: int | None = None
    """Told to the command as torchrun would; the mistake must be found without the other ranks."""
    environment: dict[str, str] = field(default_factory=dict)
    prepare: Callable[[Path], object] | None = None
    """Called with the working directory before; what it returns is kept alive."""
    modes: tuple[str, ...] = ("run", "dry run")


def truncate(name: str, keep: int) -> Callable[[Path], None]:
    def cut(here: Path) -> None:
        os.truncate(here / name, keep)

    return cut


def overwrite(name: str, start: bytes) -> Callable[[Path], None]:
    def spoil(here: Path) -> None:
        with open(here / name, "r+b") as stream:
            stream.write(start)

    return spoil


def remove(name: str) -> Callable[[Path], None]:
    return lambda here: (here / name).unlink()


def other_run(here: Path) -> None:
    """A run directory that a run with another learning rate has made."""
    command = parse([*shlex.split(TINY), "optimizer.lr=0.01"])
    resolved = resolve(command.selection, command.overrides, world_size=1, device="cpu", flags=command.flags)
    directory.create(here / "other", directory.with_paths(resolved.config, here / "other"))


SELECTION = (
    Bad("unknown recipe", "--recipe llama32_1b_pretrian_config", ("no such recipe", "llama32_1b_pretrain_config")),
    Bad("recipe and model", f"{LLAMA} --model llama32_1b", ("--recipe", "--model", "both")),
    Bad("neither recipe nor model", "-ms 4", ("--recipe", "--model")),
    Bad("contradictory mode", f"{LLAMA} --mode sft", ("--mode sft", "pretrain")),
    Bad("unknown mode", f"{LLAMA} --mode pretran", ("--mode pretran", "did you mean 'pretrain'")),
    Bad("model without mode", "--model llama32_1b", ("--mode",)),
    Bad("unknown model", "--model llama99_1b --mode pretrain", ("llama99_1b", "no such recipe")),
    Bad("planned recipe", "--recipe qwen3_next_80b_a3b_sft_config --mode sft", ("not available yet",)),
    Bad("unknown dataset", f"{LLAMA} --dataset mocc", ("--dataset mocc", "mock")),
    Bad("planned dataset", f"{LLAMA} --dataset energon", ("--dataset energon", "not available yet")),
    Bad("dataset of another mode", f"{LLAMA} --dataset squad", ("--dataset squad", "serves --mode sft")),
    Bad("unknown step", f"{LLAMA} --step-func lm_step", ("--step-func lm_step", "llm_step")),
    Bad("planned step", f"{LLAMA} --step-func vlm_step", ("--step-func vlm_step", "not available yet")),
)
WORDS = (
    Bad("unknown flag", f"{LLAMA} --max_setps 4", ("unknown flag '--max_setps'", "--max_steps")),
    Bad("abbreviation", "--rec llama32_1b_pretrain_config", ("unknown flag '--rec'", "--recipe", "not abbreviated")),
    Bad("two values for one field", f"{GPT} -ms 4 --max-steps 5", ("-ms 4", "--max-steps 5", "contradict")),
    Bad("word without equals sign", f"{LLAMA} foo", ("'foo' is neither a flag nor KEY=VALUE",)),
    Bad("spaces around equals sign", f"{LLAMA} train.train_iters = 4", ("train.train_iters=VALUE",)),
    Bad("flag without value", f"{LLAMA} -ms", ("-ms needs a value",)),
    Bad("switch with value", f"{LLAMA} --deterministic=true", ("--deterministic takes no value",)),
    Bad("unknown device", f"{TINY} --device=tpu".replace("--device cpu", ""), ("tpu", "auto, cpu, cuda")),
)
FIELDS = (
    Bad("unknown field", f"{GPT} train.global_batch_sise=4", ("global_batch_sise", "global_batch_size")),
    Bad("unknown field behind a plus", f"{GPT} +train.global_batch_sise=4", ("global_batch_sise", "global_batch_size")),
    Bad("unknown section", f"{GPT} trian.train_iters=4", ("trian", "train")),
    Bad("text for a number", f"{GPT} -ms abc", ("--max_steps abc", "train.train_iters")),
    Bad("zero steps", f"{GPT} -ms 0", ("train.train_iters", "0")),
    Bad("negative learning rate", f"{GPT} --lr -1e-4", ("optimizer.lr", "-0.0001")),
    Bad("number for a switch", f"{GPT} model.sequence_parallel=1", ("model.sequence_parallel", "true or false")),
    Bad("list for a number", f"{GPT} 'model.hidden_size=[1]'", ("model.hidden_size",)),
    Bad("sweep", f"{GPT} train.global_batch_size=1,2", ("train.global_batch_size",)),
    Bad("infinite number", f"{GPT} optimizer.lr=inf", ("optimizer.lr",)),
    Bad("two run directories", f"{GPT} --run-dir a logger.run_dir=b", ("--run-dir a", "logger.run_dir=b")),
)
TOPOLOGY = (
    Bad("heads over tensor parallel", f"{GPT} -tp 5", ("num_attention_heads=12", "model_parallel_size=5"), ranks=5),
    Bad("global batch over ranks", f"{GPT} -gb 6 -mb 4", ("train.global_batch_size=6", "nearest is 4 or 8")),
    Bad("world over model", f"{GPT} -tp 2", ("world size 3 is not a multiple of 2",), ranks=3),
    Bad("sequence over context", f"{GPT} -cp 2 -sl 1022", ("dataset.seq_length=1022", "multiple of 4"), ranks=2),
    Bad("layers over stages", f"{GPT} -pp 5 -gb 30", ("model.num_layers=12", "5 pipeline stages"), ranks=5),
    Bad("layers over virtual stages", f"{GPT} -pp 2 -vp 5", ("model.num_layers=12", "6 blocks", "5 model"), ranks=2),
    Bad("sequence parallel alone", f"{GPT} model.sequence_parallel=true", ("tensor_model_parallel_size", "2 or more")),
    Bad("experts of a dense model", f"{GPT} -ep 2", ("expert_model_parallel_size=2", "dense"), ranks=2),
    Bad(
        "two owners of the sequence length",
        f"{GPT} -sl 512 model.seq_length=256",
        ("model.seq_length", "dataset.seq_length"),
    ),
    Bad("world size of words", GPT, ("WORLD_SIZE", "'two'"), environment={"WORLD_SIZE": "two", "RANK": "0"}),
    Bad("ranks that nobody started", GPT, ("WORLD_SIZE is 4", "nproc_per_node"), environment={"WORLD_SIZE": "4"},
        modes=("run",)),
)  # fmt: skip
DATA = (
    Bad("no data path", INDEXED, ("dataset.data_path=PREFIX", "never falls back to mock")),
    Bad("data that is not there", f"{INDEXED} dataset.data_path=nowhere", ("nowhere", ".bin")),
    Bad("no .idx", f"{INDEXED} dataset.data_path=good", ("good.idx",), prepare=remove("good.idx")),
    Bad("no .bin", f"{INDEXED} dataset.data_path=good", ("good.bin",), prepare=remove("good.bin")),
    Bad("truncated .bin", f"{INDEXED} dataset.data_path=good", ("good.bin",), prepare=truncate("good.bin", 99)),
    Bad("truncated .idx", f"{INDEXED} dataset.data_path=good", ("good.idx",), prepare=truncate("good.idx", 40)),
    Bad("not an index", f"{INDEXED} dataset.data_path=good", ("good.idx",), prepare=overwrite("good.idx", b"NOTANIDX")),
    Bad(
        "tokens beyond the vocabulary",
        f"{TINY} --dataset megatron-indexed tokenizer.vocab_size=16 dataset.data_path=good",
        ("good.bin", "the vocabulary is 0 to 15"),
    ),
    Bad("mock with files", f"{TINY} --dataset mock dataset.data_path=good", ("mock", "megatron-indexed")),
    Bad("blend weight", f"{INDEXED} 'dataset.data_path=[0,good,1,good]'", ("dataset.data_path", "weight", "above")),
    Bad("blend word", f"{INDEXED} 'dataset.data_path=\"1 good heavy good\"'", ("dataset.data_path", "heavy")),
    Bad("split of words", f"{TINY} 'dataset.split=\"90,abc,5\"'", ("dataset.split", "90,abc,5")),
    Bad("negative split", f"{TINY} 'dataset.split=\"-1,1,0\"'", ("dataset.split", "-1,1,0")),
)
DIRECTORIES = (
    Bad("run directory below a file", f"{TINY} --run-dir good.bin/run", ("good.bin", "--run-dir")),
    Bad("run directory is a file", f"{TINY} --run-dir good.bin", ("good.bin", "is a file", "--run-dir")),
    Bad(
        "run of another configuration", f"{TINY} --run-dir other", ("optimizer.lr", "0.01", "0.0003"), prepare=other_run
    ),
    Bad(
        "configuration saved below a file",
        f"{TINY} logger.save_config_filepath=good.bin/c.yaml",
        ("logger.save_config_filepath", "good.bin"),
        modes=("dry run",),
    ),
    Bad(
        "configuration saved over data",
        f"{TINY} logger.save_config_filepath=good.bin",
        ("logger.save_config_filepath", "no configuration"),
        modes=("dry run",),
    ),
)
STARTING_POINTS = (
    Bad("checkpoint to load is not there", f"{TINY} --load_dir nowhere", ("checkpoint.load=nowhere",)),
    Bad("step to load is not there", f"{TINY} --load_dir . checkpoint.ckpt_step=7", ("checkpoint.ckpt_step=7",)),
    Bad("weights are not there", f"{TINY} --pretrained_checkpoint nowhere", ("pretrained_checkpoint=nowhere",)),
    Bad("wandb is not installed", f"{TINY} logger.wandb_project=mine", ("logger.wandb_project", "install wandb")),
)
TABLE = SELECTION + WORDS + FIELDS + TOPOLOGY + DATA + DIRECTORIES + STARTING_POINTS


@pytest.fixture(scope="module")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A small corpus of bytes under the prefix `good`."""
    from trainwright.datasets.prepare import prepare
    from trainwright.recipes.config.data import TokenizerConfig

    folder = tmp_path_factory.mktemp("corpus")
    prepare([Path(shlex.__file__)], folder / "good", TokenizerConfig(tokenizer_type="ByteLevelTokenizer"), workers=1)
    return folder


@pytest.fixture
def here(corpus: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The working directory, with a copy of the corpus, in an environment without a launcher."""
    for file in corpus.glob("good.*"):
        shutil.copy(file, tmp_path)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("trainwright_trainer.one_voice.PATIENCE_SECONDS", 0.0)
    before = dict(os.environ)
    for name in before:
        if name.startswith(("SLURM_", "TRAINWRIGHT_")) or name in ("WORLD_SIZE", "RANK", "LOCAL_RANK"):
            del os.environ[name]
    yield tmp_path
    os.environ.clear()
    os.environ.update(before)


def surround(bad: Bad, here: Path) -> object:
    if bad.ranks is not None:
        os.environ.update(WORLD_SIZE=str(bad.ranks), RANK="0", LOCAL_RANK="0")
    os.environ.update(bad.environment)
    return bad.prepare(here) if bad.prepare else None


def listing(here: Path) -> dict[str, bytes | None]:
    return {str(path): path.read_bytes() if path.is_file() else None for path in sorted(here.rglob("*"))}


def assert_refused(bad: Bad, code: int, out: str, err: str) -> None:
    assert code == 2, err
    assert out == ""
    assert err.startswith("run-recipe: ")
    assert err.count("\n") == 1, err
    for part in bad.says:
        assert part in err


@pytest.mark.parametrize(
    ("bad", "mode"), [pytest.param(bad, mode, id=f"{bad.name}, {mode}") for bad in TABLE for mode in bad.modes]
)
def test_a_bad_input_is_refused_in_one_line_and_leaves_nothing(
    bad: Bad, mode: str, here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    kept = surround(bad, here)
    before = listing(here)
    code = main([*shlex.split(bad.words), *(["--dry-run"] if mode == "dry run" else [])])
    assert_refused(bad, code, *capsys.readouterr())
    assert listing(here) == before
    del kept


def test_a_second_writer_is_refused(here: Path) -> None:
    """What is held by another process is only known once the ranks are up, so this one is a process of its own."""
    bad = Bad("a second writer", f"{TINY} --run-dir busy", ("busy", "process"))
    with SessionLog.open(here / "busy", run_id="busy"):
        before = listing(here)
        command = [sys.executable, "-m", "trainwright_trainer", *shlex.split(bad.words)]
        done = subprocess.run(command, capture_output=True, text=True)
        assert_refused(bad, done.returncode, done.stdout, done.stderr)
        assert listing(here) == before


def test_only_rank_zero_speaks(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Eight ranks that read the same wrong words do not print eight lines."""
    os.environ.update(WORLD_SIZE="8", RANK="3", LOCAL_RANK="3")
    assert main(["--recipe", "nothing"]) == 2
    assert capsys.readouterr() == ("", "")


def test_each_node_tells_of_data_that_it_lacks(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Rank 0 may well have the file."""
    words = shlex.split(f"{INDEXED} train.global_batch_size=16 dataset.data_path=nowhere")
    for rank, local_rank, told in ((0, 0, True), (3, 3, False), (4, 0, True)):
        os.environ.update(WORLD_SIZE="8", RANK=str(rank), LOCAL_RANK=str(local_rank))
        assert main(words) == 2
        assert ("nowhere" in capsys.readouterr().err) is told


def test_a_refusal_reaches_the_launcher(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """torchrun turns every exit code into 1; the file that the launcher names keeps the real one."""
    os.environ["TRAINWRIGHT_STATUS_FILE"] = str(here / "status.json")
    assert main(["--recipe", "nothing"]) == 2
    status = json.loads((here / "status.json").read_text())
    assert status["exit_code"] == 2
    assert "nothing" in status["reason"]


def test_the_words_that_the_table_spoils_are_good(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Otherwise a row could be refused for a reason that all rows share."""
    for words in (TINY, f"{INDEXED} dataset.data_path=good", f"{GPT} -ms 4", LLAMA):
        assert main([*shlex.split(words), "--dry-run"]) == 0, capsys.readouterr().err
