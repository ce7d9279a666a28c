"""GPUs by the names that recipes have: how much memory each has, and who says so."""

from dataclasses import dataclass

GIGABYTE = 2**30
"""Memory is made and sold in binary gigabytes, also where a data sheet writes GB: the driver of an H100 of 80 GB shows
81,559 MiB, that is 79.6 of them."""


@dataclass(frozen=True)
class Gpu:
    """One kind of GPU."""

    name: str
    """As in a recipe's name."""
    memory: int
    """Bytes. What a driver and its libraries take of it is not taken off."""
    source: str
    """The vendor's document that gives the number, and how it was read."""
    two_layouts: bool = False
    """Matrix products in 8 bits want both operands in one layout, so that a weight is kept in two."""


def _gpu(name: str, gigabytes: int, source: str, *, two_layouts: bool = False) -> Gpu:
    return Gpu(name, gigabytes * GIGABYTE, source, two_layouts)


GPUS = {
    gpu.name: gpu
    for gpu in (
        _gpu("h100", 80, "NVIDIA H100 Tensor Core GPU data sheet, H100 SXM: 80 GB", two_layouts=True),
        _gpu("b200", 180, "NVIDIA DGX B200 data sheet: 1,440 GB in 8 GPUs"),
        _gpu("b300", 270, "NVIDIA HGX data sheet, HGX B300: 2.1 TB in 8 GPUs, 270 GB a GPU as its servers list it"),
        _gpu("gb200", 186, "NVIDIA GB200 NVL72 data sheet: 13.4 TB in 72 GPUs"),
        _gpu("gb300", 279, "NVIDIA GB300 NVL72 data sheet: 20 TB in 72 GPUs, 279 GB a GPU as its racks list it"),
        _gpu("vr200", 288, "NVIDIA Vera Rubin NVL72 product page, preliminary: 20.7 TB in 72 GPUs"),
        _gpu("r100", 288, "The Rubin GPU of NVIDIA Vera Rubin NVL72, preliminary: 288 GB"),
    )
}
