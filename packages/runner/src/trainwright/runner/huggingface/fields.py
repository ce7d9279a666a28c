"""Reading a `config.json` of which every word that matters must be understood."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

from trainwright.runner.errors import RunRefused

REQUIRED = object()

WITHOUT_EFFECT = frozenset(
    """
    _name_or_path architectures auto_map aux_loss_alpha bos_token_id chunk_size_feed_forward dtype eos_token_id ep_size
    id2label initial_context_length
    is_encoder_decoder keys_to_ignore_at_inference label2id max_window_layers model_type output_attentions
    output_hidden_states output_router_logits pad_token_id problem_type quantization_config return_dict
    router_aux_loss_coef seq_aux sep_token_id torch_dtype transformers_version use_cache use_return_dict
    """.split()  # noqa: SIM905 - a list of words reads better as words
)
"""Fields that say nothing about what the model computes from its weights."""


class Fields:
    """A `config.json`; what nobody asked for can be listed."""

    def __init__(self, values: Mapping[str, Any], where: object, tensors: Collection[str] = ()) -> None:
        """`tensors` are the names of the weights that lie beside it."""
        self.values, self.where, self.tensors = values, where, tensors
        self.remarks: list[str] = []
        self._asked: set[str] = set()

    def take(self, name: str, default: Any = REQUIRED) -> Any:
        """The field; `default` where it is left out or null.

        Raises:
            RunRefused: it is required and not there.
        """
        self._asked.add(name)
        value = self.values.get(name)
        if value is not None:
            return value
        if default is REQUIRED:
            raise RunRefused(f"{self.where} has no {name}")
        return default

    def only(self, name: str, allowed: tuple[Any, ...]) -> None:
        """Insist on a value; left out it is the first one.

        Raises:
            RunRefused: it is another one.
        """
        if self.take(name, allowed[0]) not in allowed:
            wanted = " or ".join(repr(value) for value in allowed)
            raise RunRefused(f"{self.where}: {name}={self.values[name]!r} is not known here; it can be {wanted}")

    def unread(self) -> list[str]:
        """Names that nobody asked for, and that may mean something."""
        named = self.values.keys() - self._asked - WITHOUT_EFFECT
        return sorted(name for name in named if self.values[name] not in (None, False, [], {}, ""))
