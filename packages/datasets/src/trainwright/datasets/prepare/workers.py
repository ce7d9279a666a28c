"""Chunks through several processes, results in the order of the chunks."""

from __future__ import annotations

import multiprocessing
import os
import signal
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool

from trainwright.datasets.errors import DataError
from trainwright.datasets.prepare.encoding import Encoded, Encoder
from trainwright.datasets.prepare.reading import Chunk

CHUNKS_AHEAD = 3
"""Chunks read ahead for each worker: enough to keep it busy, and a bound on memory."""

_encode: Callable[[Chunk], Encoded]


def encode_all(encoder: Encoder, chunks: Iterable[Chunk], workers: int) -> Iterator[tuple[Chunk, Encoded]]:
    """Each chunk with its documents, in order. The first chunk that fails, in that order, ends it with its error."""
    if workers == 1:
        for chunk in chunks:
            yield chunk, encoder.encode(chunk)
        return
    # A Hugging Face tokenizer has threads of its own, which do not survive a fork; one document needs none.
    os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
    # Forked: a worker shares the tokenizer and starts at once.
    context = multiprocessing.get_context("fork")
    with ProcessPoolExecutor(workers, context, initializer=_start, initargs=(encoder,)) as pool:
        pending: deque[tuple[Chunk, Future[Encoded]]] = deque()
        try:
            for chunk in chunks:
                pending.append((chunk, pool.submit(_encode_one, chunk)))
                if len(pending) >= workers * CHUNKS_AHEAD:
                    yield _first(pending)
            while pending:
                yield _first(pending)
        except BrokenProcessPool:
            raise DataError("a worker was killed (out of memory?); fewer --workers need less") from None
        finally:
            pool.shutdown(cancel_futures=True)


def _first(pending: deque[tuple[Chunk, Future[Encoded]]]) -> tuple[Chunk, Encoded]:
    chunk, future = pending.popleft()
    return chunk, future.result()


def _start(encoder: Encoder) -> None:
    global _encode
    _encode = encoder.encode
    # Ctrl-C reaches every process of the terminal: the parent, which has files to clean up, ends the workers.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    # Whatever the parent does on SIGTERM, a worker ends: the pool waits for ever for one that does not.
    signal.signal(signal.SIGTERM, signal.SIG_DFL)


def _encode_one(chunk: Chunk) -> Encoded:
    return _encode(chunk)
