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
    """Where the number is from. NVIDIA's own data sheets were not at hand: descriptions of systems, as submitters of
    MLPerf results make them, name most of these GPUs with their memory."""
    two_layouts: bool = False
    """Matrix products in 8 bits want both operands in one layout, so that a weight is kept in two."""


def _gpu(name: str, gigabytes: int, source: str, *, two_layouts: bool = False) -> Gpu:
    return Gpu(name, gigabytes * GIGABYTE, source, two_layouts)


GPUS = {
    gpu.name: gpu
    for gpu in (
        _gpu("h100", 80, "as it calls itself: NVIDIA H100 80GB HBM3", two_layouts=True),
        _gpu("b200", 180, "MLPerf system descriptions: NVIDIA B200-SXM-180GB"),
        _gpu("b300", 270, "MLPerf system descriptions: NVIDIA B300-SXM-270GB"),
        _gpu("gb200", 186, "MLPerf system descriptions: NVIDIA GB200, 186 GB"),
        _gpu("gb300", 279, "second-hand: 20 TB in the 72 GPUs of a GB300 NVL72, 279 GB each as its racks list it"),
        _gpu("vr200", 288, "second-hand and preliminary: 20.7 TB in the 72 GPUs of a Vera Rubin NVL72"),
        _gpu("r100", 288, "second-hand and preliminary: the Rubin GPU of the same rack"),
    )
}
