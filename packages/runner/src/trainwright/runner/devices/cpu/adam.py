"""AdamW as Megatron Core expects it from Apex or Transformer Engine."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import torch
from torch.optim.adam import adam


class GroupStepAdam(torch.optim.Optimizer):
    """Adam (decoupled decay when `adam_w_mode`) that counts steps in the parameter group, not in each tensor's state.

    The distributed optimizer of Megatron Core 0.19 saves and loads exactly two tensors for a parameter, `exp_avg`
    and `exp_avg_sq`, and the count from the group, as the fused optimizers of Apex and Transformer Engine keep them;
    with torch's own AdamW its checkpoints do not load. The arithmetic is torch's fused kernel.
    """

    def __init__(
        self,
        params: Iterable[Any],
        lr: float = 1e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 0.0,
        adam_w_mode: bool = True,
        capturable: bool = False,
    ) -> None:
        if capturable:
            raise ValueError("optimizer.optimizer_cuda_graph: there are no CUDA graphs on the CPU")
        super().__init__(params, {"lr": lr, "betas": betas, "eps": eps, "weight_decay": weight_decay})
        self.adam_w_mode = adam_w_mode

    @torch.no_grad()
    def step(self, closure: Callable[[], float] | None = None) -> None:  # type: ignore[override]
        """Update every parameter that has a gradient."""
        if closure is not None:
            raise ValueError("GroupStepAdam takes no closure")
        for group in self.param_groups:
            group["step"] = group.get("step", 0) + 1
            params = [p for p in group["params"] if p.grad is not None]
            if params:
                self._update(params, group)

    def _update(self, params: list[torch.Tensor], group: dict[str, Any]) -> None:
        for p in params:
            if not self.state[p]:
                self.state[p] = {"exp_avg": torch.zeros_like(p), "exp_avg_sq": torch.zeros_like(p)}
        # The kernel adds one to each count itself.
        steps = list(torch.full((len(params),), float(group["step"] - 1)).unbind())
        adam(
            params,
            [p.grad for p in params],  # type: ignore[misc]
            [self.state[p]["exp_avg"] for p in params],
            [self.state[p]["exp_avg_sq"] for p in params],
            [],
            steps,
            fused=True,
            decoupled_weight_decay=self.adam_w_mode,
            amsgrad=False,
            beta1=group["betas"][0],
            beta2=group["betas"][1],
            lr=group["lr"],
            weight_decay=group["weight_decay"],
            eps=group["eps"],
            maximize=False,
        )
