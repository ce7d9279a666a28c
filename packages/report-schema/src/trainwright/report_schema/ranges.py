"""Iterations as inclusive ranges."""

from collections.abc import Iterable, Iterator


def as_ranges(numbers: Iterable[int]) -> list[list[int]]:
    """Inclusive ``[first, last]`` pairs that cover exactly ``numbers``, ascending: 1, 2, 3, 9 is [[1, 3], [9, 9]]."""
    ranges: list[list[int]] = []
    for number in sorted(set(numbers)):
        if ranges and number == ranges[-1][1] + 1:
            ranges[-1][1] = number
        else:
            ranges.append([number, number])
    return ranges


def ranges_text(ranges: Iterable[list[int]], limit: int = 5) -> str:
    """``"1-3, 9"``; past ``limit`` ranges, the rest is an ellipsis."""

    def texts() -> Iterator[str]:
        for index, (first, last) in enumerate(ranges):
            if index == limit:
                yield "..."
                return
            yield str(first) if first == last else f"{first}-{last}"

    return ", ".join(texts())
