"""Where Megatron Core's source names CUDA. Run it as a module to renew the list after the pin has moved:

python -m tests.runner.torch_cuda_sites > tests/runner/torch_cuda_sites.tsv
"""

import importlib.util
import re
from collections import Counter
from pathlib import Path

LIST = Path(__file__).with_suffix(".tsv")
CALLS = re.compile(
    r"""torch\.cuda(?:\.[A-Za-z_]\w*)+|device\s*=\s*["']cuda|\(["']cuda["']|\.cuda\(|pin_memory\s*=\s*True|\.type\(\)"""
)


def sites() -> Counter[tuple[str, str]]:
    """How often each file says each of these words; comments and documentation count as well."""
    spec = importlib.util.find_spec("megatron.core")
    assert spec is not None and spec.submodule_search_locations
    root = Path(next(iter(spec.submodule_search_locations)))
    found: Counter[tuple[str, str]] = Counter()
    for path in sorted(root.rglob("*.py")):
        for words in CALLS.findall(path.read_text()):
            found[path.relative_to(root).as_posix(), re.sub(r"\s", "", words)] += 1
    return found


def listed() -> Counter[tuple[str, str]]:
    """The list of the pinned version."""
    rows = [line.split("\t") for line in LIST.read_text().splitlines() if not line.startswith("#")]
    return Counter({(path, words): int(count) for path, words, count in rows})


if __name__ == "__main__":
    from importlib.metadata import version

    print(f"# Where megatron-core {version('megatron-core')} names CUDA: file, words, how often.")
    for (path, words), count in sorted(sites().items()):
        print(f"{path}\t{words}\t{count}")
