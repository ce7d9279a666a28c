"""Adapters of linear layers, LoRA and DoRA: what is trained where the weights are not.

Parameters of a part of a layer's adapter have, in a chunk and in checkpoints, the name of the layer and then

    adapter.{part}.lora_a        [dim, columns]
    adapter.{part}.lora_b        [rows, dim]
    adapter.{part}.magnitude     [rows], DoRA's alone

where a part is the whole layer under its own name, or what is fused in it: of `linear_qkv` `linear_q`, `linear_k`,
`linear_v`, their rows head by head; of a gated `linear_fc1` `linear_fc1_gate` and `linear_fc1_up`. All rows of
`linear_qkv` are in its weight's order. Experts have one adapter each, stacked in checkpoints as their weights are.
"""
