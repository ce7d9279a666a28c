"""GroupStepAdam against torch's own AdamW and Adam."""

import copy

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from trainwright.runner.devices.cpu.adam import GroupStepAdam


def parameters(seed: int = 0) -> list[torch.nn.Parameter]:
    generator = torch.Generator().manual_seed(seed)
    return [torch.nn.Parameter(torch.randn(shape, generator=generator)) for shape in ((5, 7), (3,), (1,))]


def train(optimizer: torch.optim.Optimizer, steps: range) -> None:
    for step in steps:
        generator = torch.Generator().manual_seed(step)
        for group in optimizer.param_groups:
            for parameter in group["params"]:
                parameter.grad = torch.randn(parameter.shape, generator=generator)
        optimizer.step()


@given(
    decay=st.sampled_from([0.0, 0.1]),
    betas=st.sampled_from([(0.9, 0.999), (0.0, 0.5)]),
    decoupled=st.booleans(),
    steps=st.integers(1, 5),
)
def test_equals_torch(decay, betas, decoupled, steps):
    ours, theirs = parameters(), parameters()
    reference = torch.optim.AdamW if decoupled else torch.optim.Adam
    train(GroupStepAdam(ours, lr=0.1, betas=betas, weight_decay=decay, adam_w_mode=decoupled), range(steps))
    train(reference(theirs, lr=0.1, betas=betas, weight_decay=decay), range(steps))
    for mine, other in zip(ours, theirs, strict=True):
        torch.testing.assert_close(mine, other, rtol=1e-6, atol=1e-7)


def test_the_step_is_counted_in_the_group_and_state_holds_two_tensors():
    optimizer = GroupStepAdam([{"params": parameters()}, {"params": []}], lr=0.1)
    train(optimizer, range(3))
    assert [group["step"] for group in optimizer.param_groups] == [3, 3]
    assert all(set(state) == {"exp_avg", "exp_avg_sq"} for state in optimizer.state.values())


def test_a_loaded_state_continues_bit_for_bit():
    straight = parameters()
    optimizer = GroupStepAdam(straight, lr=0.1)
    train(optimizer, range(2))
    resumed = [torch.nn.Parameter(parameter.detach().clone()) for parameter in straight]
    other = GroupStepAdam(resumed, lr=0.1)
    other.load_state_dict(copy.deepcopy(optimizer.state_dict()))
    for each in (optimizer, other):
        train(each, range(2, 4))
    assert all(torch.equal(a, b) for a, b in zip(straight, resumed, strict=True))


def test_a_parameter_without_gradient_stays():
    still, moving = parameters()[:2]
    before = still.detach().clone()
    optimizer = GroupStepAdam([still, moving], lr=0.1, weight_decay=0.5)
    moving.grad = torch.ones_like(moving)
    optimizer.step()
    assert torch.equal(still, before)
    assert still not in optimizer.state


def test_cuda_graphs_and_closures_are_refused():
    with pytest.raises(ValueError, match="CUDA graphs"):
        GroupStepAdam(parameters(), capturable=True)
    with pytest.raises(ValueError, match="closure"):
        GroupStepAdam(parameters()).step(lambda: 0.0)
