"""A tokenizer's files from the Hugging Face hub, into the hub's own cache."""

from __future__ import annotations

import re
from pathlib import Path

from trainwright.datasets.errors import NotFetched

_ID = re.compile(r"[A-Za-z0-9][\w.-]*/[A-Za-z0-9][\w.-]*")
FILES = (
    "tokenizer*",
    "*.model",
    "vocab*",
    "merges.txt",
    "added_tokens.json",
    "special_tokens_map.json",
    "chat_template*",
    "config.json",
)
"""What of a model's repository a tokenizer reads; no weights."""


def is_hub_id(text: str) -> bool:
    """Whether `text` has the form `OWNER/NAME`."""
    return _ID.fullmatch(text) is not None


def from_hub(name: str) -> Path:
    """The folder that holds the files of the repository `name`, fetched unless the cache has them.

    Several processes may ask at once: the hub's library locks. With `HF_HUB_OFFLINE=1` only the cache is looked at.

    Raises:
        NotFetched: they are neither in the cache nor to be had from the hub.
    """
    from huggingface_hub import constants, snapshot_download

    try:
        return Path(snapshot_download(name, allow_patterns=list(FILES)))
    except Exception as error:  # requests, the hub and the file system each have errors of their own
        offline = " (HF_HUB_OFFLINE is set)" if constants.HF_HUB_OFFLINE else ""
        reason = (str(error).strip() or type(error).__name__).splitlines()[0]
        raise NotFetched(
            f"tokenizer.tokenizer_model: {name} is no local folder, is not in the cache {constants.HF_HUB_CACHE}, and "
            f"cannot be fetched from the hub{offline}: {reason}"
        ) from error
