"""How fast and how well are sequences packed, beside TRL's best-fit packing?

    python benchmarks/packing.py [--sequences 200000] [--row-size 4096] [--pairs 5] [--million]

Both get the same sequences in memory, with lengths of a log-normal distribution as those of instruction data are
(median 350 tokens, a tenth above 1,100, cut at the size of a row), and give rows with their tokens in place. TRL is
asked for all sequences at once; its own default, 1,000 at a time, is shown too. Prints sequences/s, the share of all
places that hold a token, and the ratio of the speeds: the median over interleaved pairs, so that a busy machine slows
both. The aims: 3 times as fast, at least as full. `--million` also packs the lengths of a million sequences, in at most
30 s.
"""

import argparse
import json
import os
import statistics
import time
from collections.abc import Callable

import numpy as np

from trainwright.datasets.packing.algorithms import Packing, pack

ALGORITHMS = ("best_fit", "first_fit_decreasing")


def made_up_lengths(sequences: int, row_size: int) -> np.ndarray:
    """Lengths in 1..row_size: int64, shape [sequences]."""
    drawn = np.random.RandomState(0).lognormal(mean=np.log(350), sigma=0.9, size=sequences)
    return np.clip(drawn, 1, row_size).astype(np.int64)


def gathered(ids: np.ndarray, starts: np.ndarray, packing: Packing) -> np.ndarray:
    """All ids, in the order of the rows: what TRL's rows hold."""
    bounds = zip(starts[packing.order].tolist(), starts[packing.order + 1].tolist(), strict=True)
    return np.concatenate([ids[begin:end] for begin, end in bounds])


def trl_rows(ids: np.ndarray, starts: np.ndarray, row_size: int) -> Callable[[int | None], int]:
    """A function that packs with TRL, so many sequences at a time (None: all), and gives the number of rows."""
    import pyarrow
    from datasets import Dataset, disable_progress_bars
    from trl import pack_dataset

    disable_progress_bars()
    column = pyarrow.ListArray.from_arrays(starts.astype(np.int32), ids)
    dataset = Dataset(pyarrow.table({"input_ids": column}))

    def rows(at_a_time: int | None) -> int:
        how = {"batch_size": at_a_time, "keep_in_memory": True, "load_from_cache_file": False}
        return len(pack_dataset(dataset, row_size, strategy="bfd", map_kwargs=how))

    return rows


def timed[Result](work: Callable[[], Result]) -> tuple[float, Result]:
    """Seconds, and what came out."""
    began = time.perf_counter()
    result = work()
    return time.perf_counter() - began, result


def main() -> None:
    """Run the benchmark and print its rates and their ratio."""
    parser = argparse.ArgumentParser(description="Speed and fullness of packing beside TRL.")
    parser.add_argument("--sequences", type=int, default=200_000)
    parser.add_argument("--row-size", type=int, default=4096, help="tokens of a packed row")
    parser.add_argument("--pairs", type=int, default=5, help="interleaved measurements of each")
    parser.add_argument("--million", action="store_true", help="also time the lengths of a million sequences")
    options = parser.parse_args()
    os.environ["HF_DATASETS_OFFLINE"] = "1"

    size, count = options.row_size, options.sequences
    lengths = made_up_lengths(count, size)
    starts = np.concatenate(([0], np.cumsum(lengths)))
    ids = np.arange(starts[-1], dtype=np.int32)
    trl = trl_rows(ids, starts, size)

    def ours() -> int:
        packing = pack(lengths, size, "best_fit")
        gathered(ids, starts, packing)
        return len(packing)

    pairs = [(timed(ours), timed(lambda: trl(None))) for _ in range(options.pairs)]
    default_seconds, default_rows = timed(lambda: trl(1000))
    rows = {"best_fit": pairs[0][0][1], "TRL bfd": pairs[0][1][1], "TRL bfd, 1,000 at a time": default_rows}
    seconds = {
        "best_fit": statistics.median(mine for (mine, _), _ in pairs),
        "TRL bfd": statistics.median(theirs for _, (theirs, _) in pairs),
        "TRL bfd, 1,000 at a time": default_seconds,
    }
    kept = {name: starts[-1] / (number * size) for name, number in rows.items()}
    for name in rows:
        print(f"{name:<25} {count / seconds[name]:12,.0f} sequences/s  {kept[name]:9.4%} kept  {rows[name]:,} rows")
    ratio = statistics.median(theirs / mine for (mine, _), (theirs, _) in pairs)
    print(f"{'ratio':<25} {ratio:12.1f}  (aim: at least 3, and no fewer tokens kept; median of {options.pairs} pairs)")
    result = {"sequences": count, "row_size": size, "ratio": round(ratio, 2), "kept": kept}
    if options.million:
        million = made_up_lengths(1_000_000, size)
        for algorithm in ALGORITHMS:
            taken, packing = timed(lambda algorithm=algorithm: pack(million, size, algorithm))
            share = million.sum() / (len(packing) * size)
            print(f"1,000,000 sequences, {algorithm:<21} {taken:6.2f} s  {share:.4%} kept  (aim: at most 30 s)")
            result[f"million_{algorithm}_seconds"] = round(taken, 2)
    print(json.dumps(result))


if __name__ == "__main__":
    main()
