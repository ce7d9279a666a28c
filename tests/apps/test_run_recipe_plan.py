"""`run-recipe --dry-run --plan`: the page about ranks that are not there."""

import os
from contextlib import redirect_stdout
from io import StringIO
from typing import Any

import pytest

from trainwright.recipes import ResolvedRun, Selection, resolve
from trainwright.recipes.memory import pipeline_of, stage_memory
from trainwright.recipes.sizes import vocabulary_of
from trainwright.runner.testing import run_ranks
from trainwright_trainer.run_recipe import main
from trainwright_trainer.sizes import binary

DEEPSEEK = "deepseek_v3_pretrain_1024gpu_h100_bf16_config"
KNOWN_INVALID = "deepseek_v3_pretrain_64gpu_h100_bf16_config"
OFFLOADS = "llama3_70b_pretrain_64gpu_gb200_bf16_config"


PAGES = {
    "a thousand ranks": ("--recipe", DEEPSEEK),
    "does not fit": ("--recipe", OFFLOADS),
    "cannot run": ("--recipe", KNOWN_INVALID),
    "on this machine": ("--recipe", "vanilla_gpt_pretrain_config", "--device", "cpu", "model.num_layers=2", "-gb", "4"),
}
"""Words of each page."""


def printed(commands: dict[str, tuple[str, ...]]) -> dict[str, tuple[int, str]]:
    """Exit code and stdout of each, in a process that no launcher started; a plan binds Megatron Core to the CPU."""
    for name in ("RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE"):
        os.environ.pop(name)
    found = {}
    for name, words in commands.items():
        with redirect_stdout(StringIO()) as page:
            code = main(["--dry-run", "--plan", *words])
        found[name] = (code, page.getvalue())
    return found


@pytest.fixture(scope="module")
def pages() -> dict[str, str]:
    (found,) = run_ranks(printed, 1, PAGES, timeout=500)
    assert {name: code for name, (code, _) in found.items()} == dict.fromkeys(PAGES, 0)
    return {name: page for name, (_, page) in found.items()}


def resolved(name: str, *words: str) -> ResolvedRun:
    return resolve(Selection(recipe=name), list(words), world_size=None, device="cuda")


def rows(page: str) -> dict[str, Any]:
    """Named lines of a page, and its tables by their titles."""
    found: dict[str, Any] = {}
    title = ""
    for line in page.splitlines():
        if line.startswith("  "):
            found[title].append(line.split())
        elif line and "  " not in line:
            title, found[line] = line, []
        elif line:
            name, _, text = line.partition("  ")
            found[name] = text.strip()
    return found


def test_a_thousand_ranks_are_planned_on_this_machine(pages: dict[str, str]) -> None:
    """First, middle, last and fullest stage, each number the arithmetic's."""
    page, recipe = rows(pages["a thousand ranks"]), resolved(DEEPSEEK)
    memory = stage_memory(recipe, vocabulary_of(recipe), two_layouts=True)
    fullest = max(memory, key=lambda stage: stage.total)
    names, *table = page["memory of a rank"]
    assert names[:4] == ["rank", "stage", "blocks", "parameters"]
    assert [int(row[1]) for row in table] == sorted({0, 4, 7, fullest.stage})
    for row in table:
        stage = memory[int(row[1])]
        assert row[:4] == [str(128 * stage.stage), row[1], str(stage.blocks), f"{stage.parameters:,}"]
        sizes = (stage.weights, stage.gradients, stage.optimizer, stage.activations, stage.total)
        assert " ".join(row[4:]) == " ".join(map(binary, sizes))
    assert f"{binary(fullest.total)}, " in page["memory"]
    assert f"{fullest.total / (80 * 2**30):.0%} of the 80.0 GiB of h100" in page["memory"]
    assert page["waiting"].startswith(f"{pipeline_of(recipe).bubble:.1%} of an update")
    sent = page["sent by a rank in one update"]
    assert {" ".join(row[:2]) for row in sent[1:4]} == {"tensor parallel", "expert parallel", "pipeline 8"}
    assert "warning" not in page


def test_what_does_not_fit_is_said_and_so_is_what_the_numbers_leave_out(pages: dict[str, str]) -> None:
    page = rows(pages["does not fit"])
    assert "it does not fit; most of it is activations" in page["warning"]
    assert page["taken"].endswith("ddp.use_megatron_fsdp")
    assert page["left out"].endswith("model.cpu_offloading")


def test_a_recipe_that_cannot_run_is_planned_but_not_built(pages: dict[str, str]) -> None:
    warning = rows(pages["cannot run"])["warning"]
    assert warning.startswith("no rank was built, for the recipe cannot run as it stands: expert times pipeline")


def test_a_run_on_this_machine_is_planned_without_a_gpu(pages: dict[str, str]) -> None:
    page = rows(pages["on this machine"])
    assert page["memory"].startswith("a rank needs ")
    assert page["sent by a rank in one update"] == [["nothing:", "there", "is", "one", "rank"]]


@pytest.mark.parametrize("words", [["--plan"], ["--rehearse", "--plan"], ["--dry-run", "--rehearse", "--plan"]])
def test_a_plan_belongs_to_a_dry_run(words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*words, "--recipe", DEEPSEEK]) == 2
    told = capsys.readouterr()
    assert (told.out, told.err) == (
        "",
        "run-recipe: --plan belongs to --dry-run: it plans the run at its full size and trains nothing\n",
    )
