"""`trainwright-checkpoint` on adapters: what it says of them, what it writes, and what it refuses."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file
from tests.runner.huggingface_models import make
from tests.runner.random_adapters import native_adapter

from trainwright_trainer.checkpoint import main


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A Llama, a native adapter beside it and the same in PEFT's format, another Llama, one of other sizes."""
    path = tmp_path_factory.mktemp("adapters")
    model = make("llama")
    model.save_pretrained(path / "base")
    with torch.no_grad():
        model.model.layers[1].mlp.up_proj.weight[3, 4] += 1
    model.save_pretrained(path / "other")
    make("llama", vocab_size=300).save_pretrained(path / "words")
    make("llama", num_hidden_layers=3).save_pretrained(path / "short")
    native_adapter(path / "base", path / "native")
    native_adapter(path / "base", path / "untrained", scale_of_b=0.0)
    native_adapter(path / "base", path / "faint", scale_of_b=1e-30)
    assert main(["export", str(path / "native"), str(path / "peft")]) == 0
    return path


def told(capsys: pytest.CaptureFixture[str], words: str, folder: Path) -> tuple[int, str, str]:
    capsys.readouterr()
    code = main([word.replace("{}", str(folder)) for word in words.split()])
    return code, *capsys.readouterr()


def test_inspect_says_what_an_adapter_is(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Parameters by hand, of rank 4: columns and rows of four layers, in each of four blocks; in PEFT's format the A of
    qkv three times and that of fc1 twice."""
    sizes = (64 + 256) + (128 + 64) + (64 + 192) + (96 + 64)
    code, out, _ = told(capsys, "inspect {}/native --tensors", folder)
    assert code == 0
    assert "LoRA of rank 4, scale 1.5, of 16 layers (linear_qkv, linear_proj, linear_fc1, linear_fc2)" in out
    assert f"{4 * 4 * sizes:,} parameters, float32, beside {folder}/base" in out
    assert "base sha256:" in out
    assert "decoder.layers.0.self_attention.linear_qkv.adapter.linear_qkv.lora_a  [4, 64]  float32" in out
    code, out, _ = told(capsys, "inspect {}/peft --tensors", folder)
    assert code == 0
    assert f"LoRA of rank 4, alpha 6, 56 tensors, {4 * 4 * (sizes + 3 * 64):,} parameters, F32" in out
    assert "base_model.model.model.layers.0.self_attn.q_proj.lora_A.weight  [4, 64]  F32" in out


def test_what_is_merged_of_either_format_is_the_same(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for kind in ("native", "peft"):
        code, out, err = told(capsys, f"merge-lora {{}}/{kind} {tmp_path}/{kind}", folder)
        assert (code, err) == (0, "")
        assert f"merged into {folder}/base" in out
    of_native, of_peft = (load_file(tmp_path / kind / "model.safetensors") for kind in ("native", "peft"))
    assert all(torch.allclose(of_native[name], of_peft[name], rtol=0, atol=1e-6) for name in of_native | of_peft)
    base = load_file(folder / "base" / "model.safetensors")
    changed = {name for name in base if not torch.equal(base[name], of_native[name])}
    assert changed == {name for name in base if "_proj" in name}


def test_a_native_base_gives_a_native_model(folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Its fingerprint is that of the directory it came from; exported it is what merging into the directory gives."""
    for words in (
        f"import {{}}/base {tmp_path}/imported",
        f"merge-lora {{}}/native {tmp_path}/merged --base {tmp_path}/imported",
        f"export {tmp_path}/merged {tmp_path}/exported",
        f"merge-lora {{}}/native {tmp_path}/directory",
    ):
        code, _, err = told(capsys, words, folder)
        assert (code, err) == (0, "")
    exported, directory = (load_file(tmp_path / name / "model.safetensors") for name in ("exported", "directory"))
    assert all(torch.equal(exported[name], directory[name]) for name in exported | directory)
    assert (tmp_path / "exported" / "generation_config.json").is_file()


REFUSED = {
    "merge-lora {}/native {out} --base {}/other": "was trained beside other weights than those of {}/other: beside",
    "merge-lora {}/peft {out} --base {}/other": "was trained beside other weights than those of {}/other: beside",
    "import {}/peft {out} --base {}/other": "was trained beside other weights than those of {}/other: beside",
    "merge-lora {}/native {out} --base {}/words": "beside a model of 200 tokens, and {}/words has 300",
    "merge-lora {}/native {out} --base {}/short": "belongs to another model than {}/short: model.num_layers: 4 -> 3",
    "merge-lora {}/peft {out} --base {}/short": "belongs to another model: this one has no model.layers.3.",
    "merge-lora {}/untrained {out}": "changes no weight: its lora_b are zero, as an adapter begins",
    "merge-lora {}/base {out}": "{}/base is no adapter: it has neither adapter_config.json nor a native",
    "merge-lora {}/nowhere {out}": "is not a directory",
    "merge-lora {}/native {}/base": "{}/base exists; nothing is overwritten",
    "import {}/base {out} --base {}/base": "--base {}/base is for an adapter; {}/base holds no adapter_config.json",
    "export {}/native {out} --like {}/base": "holds an adapter, which has no tokenizer of its own",
    "verify {}/native {}/base": "holds an adapter; trainwright-checkpoint merge-lora makes a model with it",
}


@pytest.mark.parametrize("words", REFUSED)
def test_what_does_not_belong_together_is_refused_in_one_line(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], words: str
) -> None:
    code, _, err = told(capsys, words.replace("{out}", str(tmp_path / "out")), folder)
    assert code == 2
    assert REFUSED[words].replace("{}", str(folder)) in err
    assert err.count("\n") == 1
    assert not list(tmp_path.iterdir())


def test_an_adapter_that_rounding_swallows_is_not_merged_unnoticed(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code, _, err = told(capsys, f"merge-lora {{}}/faint {tmp_path}/out --dtype bf16", folder)
    assert (code, err.count("\n")) == (1, 1)
    assert "changes no weight: what it adds is lost in rounding to bfloat16" in err
    assert not list(tmp_path.iterdir())


def edit(place: Path, **changes: object) -> None:
    path = place / "adapter_config.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | changes))


def tensors(place: Path, change: Callable[[dict[str, torch.Tensor]], object]) -> None:
    held = load_file(place / "adapter_model.safetensors")
    change(held)
    save_file(held, place / "adapter_model.safetensors")


Q = "base_model.model.model.layers.0.self_attn.q_proj.lora_"
HEAD = "base_model.model.lm_head.lora_"
DAMAGE: dict[str, tuple[Callable[[Path], object], str]] = {
    "another method": (lambda p: edit(p, peft_type="IA3"), "peft_type='IA3' is no adapter that is known here"),
    "a rank that the tensors do not have": (lambda p: edit(p, r=8), "is of rank 4, and it says 8"),
    "no rank": (lambda p: edit(p, r=None), "r=None has to be a number above 0"),
    "biases": (lambda p: edit(p, bias="all"), "bias='all' is no adapter that is known here"),
    "whole modules beside it": (lambda p: edit(p, modules_to_save=["lm_head"]), "modules_to_save=['lm_head'] is not"),
    "a base that was changed first": (lambda p: edit(p, init_lora_weights="pissa"), "init_lora_weights='pissa'"),
    "two scales": (lambda p: edit(p, alpha_pattern={"q_proj": 12}), "adapters have one scale here"),
    "a pattern that is none": (lambda p: edit(p, rank_pattern={"(": 12}), "is no object of patterns and numbers"),
    "a word of tomorrow": (lambda p: edit(p, use_quantum=True), "use_quantum=True is not known here"),
    "no JSON": (lambda p: (p / "adapter_config.json").write_text("{"), "adapter_config.json cannot be read"),
    "no file of tensors": (lambda p: (p / "adapter_model.safetensors").unlink(), "damaged or cut short"),
    "a file cut short": (
        lambda p: (p / "adapter_model.safetensors").write_bytes((p / "adapter_model.safetensors").read_bytes()[:-9]),
        "adapter_model.safetensors is damaged or cut short",
    ),
    "a tensor is missing": (lambda p: tensors(p, lambda t: t.pop(Q + "B.weight")), "A.weight without its lora_B"),
    "a tensor of the embedding": (
        lambda p: tensors(p, lambda t: t.update({"base_model.model.lm_head.weight": torch.ones(2)})),
        "holds what no adapter here has: base_model.model.lm_head.weight",
    ),
    "an adapter of the output layer": (
        lambda p: tensors(p, lambda t: [t.update({HEAD + w: torch.ones(4, 4)}) for w in ("A.weight", "B.weight")]),
        "this one has no lm_head, which it adapts",
    ),
    "a tensor of another shape": (
        lambda p: tensors(p, lambda t: t.update({Q + "B.weight": torch.ones(8, 4)})), "is [8, 4] and not [128, 4]",
    ),
    "a tensor of integers": (
        lambda p: tensors(p, lambda t: t.update({Q + "B.weight": t[Q + "B.weight"].int()})), "is of type I32",
    ),
    "magnitudes without DoRA": (
        lambda p: tensors(p, lambda t: t.update({Q + "magnitude_vector": torch.ones(128)})), "says use_dora=false",
    ),
    "DoRA without magnitudes": (lambda p: edit(p, use_dora=True), "without its lora_magnitude_vector"),
}  # fmt: skip


@pytest.mark.parametrize("damage", DAMAGE)
def test_a_broken_adapter_is_refused_by_name_and_nothing_is_left(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], damage: str
) -> None:
    spoil, says = DAMAGE[damage]
    spoil(Path(shutil.copytree(folder / "peft", tmp_path / "peft")))
    code, out, err = told(capsys, f"import {tmp_path}/peft {tmp_path}/deep/native --base {{}}/base", folder)
    assert (code, out) == (2, "")
    assert says in err
    assert err.count("\n") == 1
    assert sorted(path.name for path in tmp_path.iterdir()) == ["peft"]
