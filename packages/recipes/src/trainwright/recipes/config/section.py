"""The base of every configuration section."""

from pydantic import BaseModel, ConfigDict


class Section(BaseModel):
    """One section of the configuration: immutable, strict about types, closed to unknown names.

    A string under a field describes it, for readers of the source. Numbers are not read from strings and booleans not
    from numbers: by the time a value gets here, the override grammar or YAML has already given it a type.
    """

    model_config = ConfigDict(
        extra="forbid",
        frozen=True,
        strict=True,
        allow_inf_nan=False,
        validate_default=False,
    )
