"""Choosing the CPU: what Megatron Core sees afterwards, and what everybody else sees."""

import mmap
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest
import torch
from tests.runner.torch_cuda_sites import listed, sites

from trainwright.runner.devices import chosen_device, use_device
from trainwright.runner.devices.cpu import cuda_names
from trainwright.runner.devices.cpu.rebinding import bind_module
from trainwright.runner.devices.cpu.replacements import ONLY_WITH_APEX, REPLACEMENTS
from trainwright.runner.devices.cpu.view import FACTORIES, VIEW
from trainwright.runner.devices.cuda import CudaDevice
from trainwright.runner.errors import RunRefused

use_device("cpu")


def test_torch_changes_in_two_methods_and_torch_cuda_in_nothing():
    """In a process of its own: what the choice changes in torch, and what importing Megatron Core then changes."""
    program = """
        import inspect, torch, torch.distributed
        spaces = {"torch": torch, "torch.cuda": torch.cuda, "Tensor": torch.Tensor}
        def look(space):
            return {name: inspect.getattr_static(spaces[space], name) for name in dir(spaces[space])}
        before = {space: look(space) for space in spaces}
        def changed(space):
            now = look(space)  # submodules imported meanwhile are new names, and no change
            return [f"{space}.{name}" for name, value in before[space].items() if now.get(name) is not value]
        from trainwright.runner.devices import use_device
        use_device("cpu")
        print(changed("torch"), changed("torch.cuda"), changed("Tensor"))
        import megatron.core.tensor_parallel
        print(changed("torch.cuda"))
    """
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(program)], capture_output=True, text=True, check=True, timeout=120
    )
    assert done.stdout.splitlines() == ["[] [] ['Tensor.cuda', 'Tensor.type']", "[]"]
    assert done.stderr == ""  # nothing of what Megatron Core says at import reaches a user of the CPU


def test_a_second_device_in_the_same_process_is_refused():
    assert use_device("cpu") is chosen_device()
    with pytest.raises(RuntimeError, match="already runs on cpu"):
        use_device("cuda")


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU")
def test_a_gpu_that_is_not_there_is_refused():
    with pytest.raises(RunRefused, match="no CUDA device is visible"):
        CudaDevice()


def test_modules_of_megatron_see_the_view_also_when_imported_late():
    import megatron.core.tensor_parallel.random as early

    sys.modules.pop("megatron.core.energy_monitor", None)
    import megatron.core.energy_monitor as late  # nothing else here imports it

    assert early.torch is VIEW
    assert late.torch is VIEW


def test_a_module_loaded_before_the_choice_is_bound_too():
    import types

    module = types.ModuleType("megatron.core.loaded_before")
    module.torch = torch
    bind_module(module)
    assert module.torch is VIEW


def test_every_replaced_name_exists_in_the_pinned_megatron():
    """Binding raises AttributeError for a name that is gone, so importing each of these modules is the check."""
    import importlib

    for name in REPLACEMENTS:
        module = importlib.import_module(name)
        assert vars(module)["__name__"] == name
    source = Path(str(importlib.import_module("megatron.core.tensor_parallel.layers").__file__)).read_text()
    assert all(name in source for name in ONLY_WITH_APEX)


def test_every_name_that_answers_for_cuda_exists_in_torch_cuda():
    ours = {name for name in vars(cuda_names) if not name.startswith("_")} - {
        "Any", "Iterator", "NoReturn", "annotations", "contextmanager", "torch",
    }  # fmt: skip
    # Tensor types are made when CUDA starts; torch's typing stubs and documentation have them.
    made_by_torch = {"FloatTensor", "HalfTensor", "BFloat16Tensor"}
    assert {name for name in ours if not hasattr(torch.cuda, name)} <= made_by_torch
    assert len(ours) >= 20


def test_every_wrapped_factory_exists_in_torch():
    assert all(callable(getattr(torch, name)) for name in FACTORIES)


def test_no_new_places_where_megatron_names_cuda():
    """A moved pin fails here with what is new; when each is looked at, renew the list (see `torch_cuda_sites`)."""
    new, gone = sites() - listed(), listed() - sites()
    assert not new and not gone, f"new: {sorted(new)}\ngone: {sorted(gone)}"


def test_the_view_is_torch_but_for_cuda_and_factories():
    assert VIEW.Tensor is torch.Tensor
    assert VIEW.distributed is torch.distributed
    assert isinstance(torch.ones(1), VIEW.Tensor)
    assert VIEW.cuda is cuda_names
    with pytest.raises(AttributeError, match="no_such_name"):
        _ = VIEW.no_such_name


@pytest.mark.parametrize("device", ["cuda", "cuda:1", torch.device("cuda", 0), 0, None, "cpu"])
def test_factories_of_the_view_make_cpu_tensors_wherever_they_are_told_to(device):
    assert VIEW.zeros(2, device=device).device.type == "cpu"
    assert VIEW.tensor([1.0], device=device, pin_memory=True).device.type == "cpu"


def test_factories_of_the_view_keep_the_meta_device():
    assert VIEW.empty(2, device="meta").device.type == "meta"


def test_a_name_of_torch_cuda_without_an_answer_is_refused_by_name():
    with pytest.raises(AttributeError, match=r"torch\.cuda\.memory_stats has no meaning on the CPU"):
        _ = VIEW.cuda.memory_stats


def test_streams_and_events_have_nothing_to_wait_for():
    stream, event = VIEW.cuda.Stream(), VIEW.cuda.Event(enable_timing=True)
    with VIEW.cuda.stream(stream):
        event.record(VIEW.cuda.current_stream())
    stream.wait_event(event)
    stream.wait_stream(VIEW.cuda.default_stream())
    VIEW.cuda.synchronize()
    assert event.query() and stream.query()


def call_from(module: str, expression: str, tensor: torch.Tensor) -> object:
    """Evaluate an expression of `tensor` as if a module of that name held it."""
    return eval(expression, {"__name__": module, "tensor": tensor})


def test_tensor_methods_answer_for_the_gpu_inside_megatron_only():
    tensor = torch.ones(2)
    assert call_from("megatron.core.utils", "tensor.cuda()", tensor) is tensor
    assert call_from("megatron.core.optimizer.clip_grads", "tensor.type()", tensor) == "torch.cuda.FloatTensor"
    assert call_from("megatron.core.utils", "tensor.type()", tensor) == "torch.FloatTensor"
    assert call_from("elsewhere", "tensor.type()", tensor) == "torch.FloatTensor"
    converted = call_from("megatron.core.optimizer", "tensor.type('torch.DoubleTensor')", tensor)
    assert isinstance(converted, torch.Tensor) and converted.dtype == torch.float64
    if not torch.cuda.is_available():
        with pytest.raises((AssertionError, RuntimeError), match=r"CUDA|NVIDIA"):
            call_from("elsewhere", "tensor.cuda()", tensor)


def test_memory_is_the_peak_since_the_last_call():
    device = chosen_device()
    device.memory()
    before = device.memory()["allocated_bytes"]
    # Mapped, since a tensor may lie in memory that other tests have freed and the process still holds.
    with mmap.mmap(-1, 64 * 2**20) as block:
        block.write(bytes(64 * 2**20))
    during = device.memory()["allocated_bytes"]
    after = device.memory()["allocated_bytes"]
    assert during - before > 48 * 2**20
    assert during - after > 48 * 2**20
