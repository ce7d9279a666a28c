"""A Hugging Face directory goes in, training runs, and one comes out that transformers loads."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file
from tests.runner.huggingface_models import llama
from tests.runner.training import corpus, losses, records, train_on

from trainwright.runner.errors import RunRefused
from trainwright.runner.preflight import check_weights
from trainwright.runner.testing import RankFailed, run_ranks
from trainwright_trainer.checkpoint import main

pytestmark = pytest.mark.distributed
BYTES = 257
"""The vocabulary of the tokenizer that runs here have."""
SAME = (
    "model.kv_channels=16",
    "model.ffn_hidden_size=96",
    "model.rope_scaling_factor=8",
    "model.layernorm_epsilon=1e-6",
    "model.share_embeddings_and_output_weights=false",
    "train.train_iters=3",
)
TP2_PP2 = ("model.tensor_model_parallel_size=2", "model.pipeline_model_parallel_size=2", "model.sequence_parallel=true")


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> str:
    return corpus(tmp_path_factory.mktemp("data"))


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A Llama with a token for each byte, and what lies beside weights."""
    folder = tmp_path_factory.mktemp("llama") / "source"
    torch.manual_seed(0)
    llama(vocab_size=BYTES).save_pretrained(folder)
    for name in ("tokenizer.json", "chat_template.jinja", "tokenizer_config.json"):
        (folder / name).write_text(f"{{}} {name}")
    return folder


@pytest.fixture(scope="module")
def native(source: Path) -> Path:
    assert main(["import", str(source), str(source.parent / "native")]) == 0
    return source.parent / "native"


@pytest.fixture(scope="module")
def trained(source: Path, native: Path, data: str, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Runs from the directory and from the imported checkpoint."""
    folder = tmp_path_factory.mktemp("runs")
    for name, ranks, weights, words in (
        ("one", 1, source, ()),
        ("four", 4, source, TP2_PP2),
        ("imported", 1, native, ()),
    ):
        start = f"checkpoint.pretrained_checkpoint={weights}"
        assert run_ranks(train_on, ranks, ranks, folder / name, data, *SAME, start, *words) == [0] * ranks
    return {name: folder / name for name in ("one", "four", "imported")}


def test_a_run_starts_from_the_weights_at_any_topology(trained: dict[str, Path], source: Path) -> None:
    one, four, imported = (losses(trained[name]) for name in ("one", "four", "imported"))
    assert one == imported
    assert [four[step] for step in range(1, 4)] == pytest.approx([one[step] for step in range(1, 4)], abs=1e-5)
    first = next(record for record in records(trained["one"]) if record["event"] == "train")
    assert first["loss"] != pytest.approx(5.549, abs=0.02)  # that of a model that has seen nothing: ln 257


def test_a_trained_model_comes_out_with_what_belongs_to_it(trained: dict[str, Path], source: Path) -> None:
    """From a run at TP2 PP2; its tokenizer comes from where its weights came from."""
    out = trained["four"] / "exported"
    assert main(["export", str(trained["four"]), str(out)]) == 0
    assert {file.name for file in source.iterdir()} == {file.name for file in out.iterdir()}
    assert (out / "chat_template.jinja").read_text() == "{} chat_template.jinja"
    before, after = load_file(source / "model.safetensors"), load_file(out / "model.safetensors")
    assert {name: tensor.shape for name, tensor in before.items()} == {name: t.shape for name, t in after.items()}
    assert not torch.equal(before["model.norm.weight"], after["model.norm.weight"])


def test_verify_compares_the_run_with_what_was_exported(
    trained: dict[str, Path], source: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    import subprocess
    import sys

    out = tmp_path / "exported"
    assert main(["export", str(trained["one"]), str(out)]) == 0
    command = [sys.executable, "-c", "import sys; from trainwright_trainer.checkpoint import main; sys.exit(main())"]
    for other, code, says in ((out, 0, ": equal"), (source, 1, "NOT equal")):
        done = subprocess.run(
            [*command, "verify", str(trained["one"]), str(other), "--tolerance", "1e-5"],
            capture_output=True,
            text=True,
        )
        assert (done.returncode, says in done.stdout) == (code, True), done.stdout + done.stderr


def test_a_checkpoint_of_a_run_comes_back_in_bit_for_bit(trained: dict[str, Path], tmp_path: Path) -> None:
    out, again = tmp_path / "out", tmp_path / "again"
    assert main(["export", str(trained["one"]), str(out)]) == 0
    assert main(["import", str(out), str(tmp_path / "native")]) == 0
    assert main(["export", str(tmp_path / "native"), str(again)]) == 0
    for name, tensor in load_file(out / "model.safetensors").items():
        assert torch.equal(tensor, load_file(again / "model.safetensors")[name])


def test_inspect_says_what_a_directory_holds(source: Path, native: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Parameters by hand: two vocabularies, four blocks of attention, gated unit and two norms, a last norm."""
    parameters = 2 * BYTES * 64 + 4 * (64 * (128 + 2 * 64) + 128 * 64 + 3 * 64 * 96 + 2 * 64) + 64
    for path, kind in ((source, "Hugging Face directory, llama"), (native, "native checkpoint of HybridModel")):
        assert main(["inspect", str(path), "--tensors"]) == 0
        out = capsys.readouterr().out
        assert f"({kind}): {parameters:,} parameters, float32" in out
        assert "family llama, 4 blocks, hidden size 64, 8 heads, 257 tokens" in out
        assert "decoder.layers.0.self_attention.linear_qkv.weight  [256, 64]  float32" in out


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (("model.layernorm_epsilon=1e-5",), r"belongs to another model: model\.layernorm_epsilon: 1e-06 -> 1e-05"),
        (("model.ffn_hidden_size=128",), r"belongs to another model: model\.ffn_hidden_size: 96 -> 128"),
        (("model.num_layers=2",), r"belongs to another model: model\.num_layers: 4 -> 2"),
        (("model.vocab_size=300",), "has 257 tokens and this run's vocabulary 300: the tokenizer is not the one"),
    ],
)
def test_weights_of_another_model_are_refused_by_name(
    source: Path, data: str, tmp_path: Path, words: tuple[str, ...], says: str
) -> None:
    start = f"checkpoint.pretrained_checkpoint={source}"
    with pytest.raises(RankFailed, match=f"RunRefused: .*{says}"):
        run_ranks(train_on, 1, 1, tmp_path / "run", data, *SAME, start, *words)
    assert not (tmp_path / "run").exists()


def test_a_vocabulary_larger_than_the_tokenizers_says_how_to_take_it(data: str, tmp_path: Path) -> None:
    llama(vocab_size=300).save_pretrained(tmp_path / "source")
    start = f"checkpoint.pretrained_checkpoint={tmp_path / 'source'}"
    with pytest.raises(RankFailed, match=r"has 300 tokens and this run's vocabulary 257: set model\.vocab_size=300"):
        run_ranks(train_on, 1, 1, tmp_path / "run", data, *SAME, start)
    assert run_ranks(train_on, 1, 1, tmp_path / "run", data, *SAME, start, "model.vocab_size=300") == [0]


def cut(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-100])


def edit(folder: Path, **changes: Any) -> None:
    path = folder / "config.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | changes))


def without_tensor(folder: Path) -> None:
    tensors = load_file(folder / "model.safetensors")
    del tensors["model.layers.1.mlp.up_proj.weight"]
    save_file(tensors, folder / "model.safetensors")


def with_tensor(folder: Path) -> None:
    tensors = load_file(folder / "model.safetensors")
    save_file({**tensors, "model.layers.1.mlp.bias": torch.ones(2)}, folder / "model.safetensors")


def sharded(folder: Path) -> None:
    """Two shards with an index, one of them lost."""
    tensors = load_file(folder / "model.safetensors")
    (folder / "model.safetensors").unlink()
    names = sorted(tensors)
    shards = {"a.safetensors": names[:20], "b.safetensors": names[20:]}
    for file, part in shards.items():
        save_file({name: tensors[name] for name in part}, folder / file)
    index = {"weight_map": {name: file for file, part in shards.items() for name in part}}
    (folder / "model.safetensors.index.json").write_text(json.dumps(index))
    (folder / "b.safetensors").unlink()


DAMAGE: dict[str, tuple[Callable[[Path], object], str]] = {
    "a shard is missing": (sharded, "names files that are not there: b.safetensors"),
    "a file is cut short": (lambda folder: cut(folder / "model.safetensors"), "model.safetensors is damaged or cut"),
    "the configuration is no JSON": (lambda folder: cut(folder / "config.json"), "config.json cannot be read"),
    "the configuration is of another model": (
        lambda f: edit(f, hidden_size=32),
        "embed_tokens.weight [257, 64] and not",
    ),
    "the configuration is of fewer blocks": (lambda f: edit(f, num_hidden_layers=3), "no place for: model.layers.3."),
    "the configuration is of another family": (lambda f: edit(f, model_type="bert"), "model_type='bert' is not known"),
    "a tensor is missing": (without_tensor, "lacks model.layers.1.mlp.up_proj.weight"),
    "a tensor is left over": (with_tensor, "no place for: model.layers.1.mlp.bias"),
    "there are no weights": (lambda f: (f / "model.safetensors").unlink(), "holds no safetensors files"),
    "there is no configuration": (lambda f: (f / "config.json").unlink(), "is no Hugging Face directory"),
}


@pytest.mark.parametrize("damage", DAMAGE)
def test_a_broken_directory_is_refused_by_name_and_nothing_is_left(
    source: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], damage: str
) -> None:
    spoil, says = DAMAGE[damage]
    folder = Path(shutil.copytree(source, tmp_path / "source"))
    spoil(folder)
    code = main(["import", str(folder), str(tmp_path / "deep" / "native")])
    out, err = capsys.readouterr()
    assert (code, out) == (2, "")
    assert says in err
    assert err.count("\n") == 1
    assert sorted(path.name for path in tmp_path.iterdir()) == ["source"]


def test_a_run_is_refused_before_it_waits_for_nodes(source: Path, tmp_path: Path) -> None:
    """What can be seen without torch: files, the family, the configuration."""
    folder = Path(shutil.copytree(source, tmp_path / "source"))
    check_weights(folder, None)
    cut(folder / "model.safetensors")
    with pytest.raises(RunRefused, match="damaged or cut short"):
        check_weights(folder, None)
    with pytest.raises(RunRefused, match="holds no checkpoint"):
        check_weights(tmp_path, None)


def test_an_interrupted_import_is_refused(native: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    partial = Path(shutil.copytree(native, tmp_path / ".partial_native"))
    (partial / ".metadata").unlink()
    assert main(["export", str(partial), str(tmp_path / "out")]) == 2
    assert "is not complete: it is being written, or was left by a crash" in capsys.readouterr().err
    lost = Path(shutil.copytree(native, tmp_path / "native"))
    (lost / "__0_0.distcp").unlink()
    assert main(["export", str(lost), str(tmp_path / "out")]) == 2
    assert "it lacks the file __0_0.distcp" in capsys.readouterr().err
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("words", ["import {source} {there}", "export {native} {there}"])
def test_nothing_is_overwritten(
    source: Path, native: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], words: str
) -> None:
    (tmp_path / "there").mkdir()
    code = main(words.format(source=source, native=native, there=tmp_path / "there").split())
    assert (code, capsys.readouterr().err) == (
        2,
        f"trainwright-checkpoint: {tmp_path / 'there'} exists; nothing is overwritten\n",
    )
    assert not list((tmp_path / "there").iterdir())
