"""Weights that are stored in fewer bits with scales beside them, as what they mean: bfloat16.

MXFP4 (GPT-OSS): `NAME_blocks` uint8 [experts, rows, groups, 16], two values of 4 bits in a byte, the lower half first,
and `NAME_scales` uint8 [experts, rows, groups], powers of two with a bias of 127 (OCP Microscaling Formats, version
1.0). They mean `NAME` [experts, 32 * groups, rows]: inputs before outputs.

Block-scaled FP8 (DeepSeek-V3): `NAME` float8 e4m3 [rows, columns] and `NAME_scale_inv` float32, a factor for each block
of `weight_block_size` (its technical report, arXiv:2412.19437, section 3.3).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from trainwright.runner.errors import RunRefused

if TYPE_CHECKING:
    from torch import Tensor

    from trainwright.runner.huggingface.folder import HuggingFaceFolder
    from trainwright.runner.huggingface.rules import Slot

BLOCKS, SCALES, FACTORS = "_blocks", "_scales", "_scale_inv"
GROUP = 32
"""Values that share a scale in MXFP4."""
E2M1 = (0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0, -0.0, -0.5, -1.0, -1.5, -2.0, -3.0, -4.0, -6.0)
"""What the 16 codes of 4 bits mean."""
SCALE_BIAS = 127
PLAIN = {"F64": "float64", "F32": "float32", "F16": "float16", "BF16": "bfloat16"}
"""Types that weights come in, as safetensors and as torch name them."""


class Source:
    """The tensors of a folder as what they mean; each is decoded when it is asked for, an expert at a time."""

    def __init__(self, folder: HuggingFaceFolder) -> None:
        """
        Raises:
            RunRefused: weights are quantised in a way that is not known here, or come without their scales.
        """
        self.folder = folder
        self.method = _method(folder)
        self.shapes, self.types = dict(folder.shapes), {name: kind for name, (_, kind, _) in folder.tensors.items()}
        if self.method == "mxfp4":
            self._decode_mxfp4()
        if self.method == "fp8":
            self._decode_fp8()
        strange = sorted(name for name, kind in self.types.items() if kind not in PLAIN)
        if strange:
            raise RunRefused(
                f"{folder.path}: {strange[0]} is of type {self.types[strange[0]]}, which is not known here "
                f"({len(strange)} such in all)"
            )

    def _decode_mxfp4(self) -> None:
        for blocks in [name for name in self.shapes if name.endswith(BLOCKS)]:
            name = blocks.removesuffix(BLOCKS)
            experts, rows, groups, _ = self._take(blocks)
            if self._take(name + SCALES) != (experts, rows, groups):
                raise RunRefused(f"{self.folder.path}: {name + SCALES} does not have the shape that {blocks} asks for")
            self.shapes[name], self.types[name] = (experts, groups * GROUP, rows), "BF16"

    def _decode_fp8(self) -> None:
        for factors in [name for name in self.shapes if name.endswith(FACTORS)]:
            name, given = factors.removesuffix(FACTORS), self._take(factors)
            if name not in self.shapes:
                raise RunRefused(f"{self.folder.path} lacks {name}, for which it has {factors}")
            if given != tuple(-(-size // block) for size, block in zip(self.shapes[name], self._block, strict=True)):
                raise RunRefused(f"{self.folder.path}: {factors} does not have a factor for each block of {name}")
            self.types[name] = "BF16"

    def _take(self, name: str) -> tuple[int, ...]:
        if name not in self.shapes:
            raise RunRefused(f"{self.folder.path} lacks {name}")
        del self.types[name]
        return self.shapes.pop(name)

    @property
    def _block(self) -> tuple[int, int]:
        rows, columns = self.folder.config["quantization_config"].get("weight_block_size") or (128, 128)
        return int(rows), int(columns)

    def part(self, slot: Slot) -> Tensor:
        """A tensor, or one of those that it holds stacked."""
        folder, name = self.folder, slot.name
        if self.method == "mxfp4" and name + BLOCKS in folder.tensors:
            blocks, scales = folder.tensor(name + BLOCKS), folder.tensor(name + SCALES)
            if slot.index is not None:
                return mxfp4(blocks[slot.index], scales[slot.index])
            return mxfp4(blocks, scales)
        if self.method == "fp8" and name + FACTORS in folder.tensors:
            return block_scaled(folder.tensor(name), folder.tensor(name + FACTORS), self._block)
        whole = folder.tensor(name)
        return whole if slot.index is None else whole[slot.index]


def _method(folder: HuggingFaceFolder) -> str | None:
    settings: Any = folder.config.get("quantization_config") or {}
    method = settings.get("quant_method") if isinstance(settings, dict) else settings
    if method not in (None, "mxfp4", "fp8"):
        raise RunRefused(
            f"{folder.path}: weights quantised by {method!r} are not known here; mxfp4 and block-scaled fp8 are"
        )
    return method


def mxfp4(blocks: Tensor, scales: Tensor) -> Tensor:
    """uint8 [..., rows, groups, 16] and [..., rows, groups] to bfloat16 [..., 32 * groups, rows]; exact."""
    import torch

    codes = torch.stack((blocks & 0x0F, blocks >> 4), dim=-1).flatten(-2)
    values = torch.tensor(E2M1, dtype=torch.float32)[codes.int()]
    scaled = torch.ldexp(values, (scales.int() - SCALE_BIAS)[..., None])
    return scaled.flatten(-2).to(torch.bfloat16).transpose(-1, -2)


def block_scaled(weight: Tensor, factors: Tensor, block: tuple[int, int]) -> Tensor:
    """float8 [rows, columns] and float32 [blocks of rows, blocks of columns] to bfloat16, rounded once."""
    import torch

    rows, columns = weight.shape
    spread = factors.float().repeat_interleave(block[0], 0)[:rows].repeat_interleave(block[1], 1)[:, :columns]
    return (weight.float() * spread).to(torch.bfloat16)
