"""Configuration values that come as text: from the command line, or from a text summary."""

import json
from difflib import get_close_matches
from typing import Any

from pydantic import TypeAdapter, ValidationError

from trainwright.report_schema.errors import UsageError
from trainwright.report_schema.training_config import TrainingConfig


def typed_value(field: str, text: str) -> Any:
    """The value that a text means for a configuration field.

    A text field takes it as it stands. Otherwise it is JSON, or one of Python's ``None``, ``True``, ``False``: no
    other notation becomes a number.

    Raises:
        ValueError: the text does not mean a value of the field's type.
    """
    annotation: Any = TrainingConfig.model_fields[field].annotation
    accepts = TypeAdapter(annotation, config={"strict": True, "allow_inf_nan": False}).validate_python
    try:
        return accepts(_plain_value(text))
    except (ValueError, ValidationError):
        pass
    try:
        return accepts(text)
    except ValidationError as error:
        raise ValueError(f"{error.errors()[0]['msg'][0].lower()}{error.errors()[0]['msg'][1:]}, got {text!r}") from None


def parse_setting(setting: str) -> tuple[str, Any]:
    """``num_nodes=2`` as ``("num_nodes", 2)``.

    Raises:
        UsageError: it is not ``FIELD=VALUE``, there is no such field, or the value has the wrong type.
    """
    field, equals, text = setting.partition("=")
    if not equals:
        raise UsageError(f"{setting!r}: expected FIELD=VALUE")
    if field not in TrainingConfig.model_fields:
        near = get_close_matches(field, TrainingConfig.model_fields, 1)
        raise UsageError(f"{field!r} is no configuration field" + (f"; did you mean {near[0]!r}?" if near else ""))
    try:
        return field, typed_value(field, text)
    except ValueError as error:
        raise UsageError(f"{field}: {error}") from None


def _plain_value(text: str) -> Any:
    python_words = {"None": None, "True": True, "False": False}
    return python_words[text] if text in python_words else json.loads(text)
