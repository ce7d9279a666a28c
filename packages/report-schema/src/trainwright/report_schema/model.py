"""What all models of this package share."""

from pydantic import BaseModel, ConfigDict


class ReportModel(BaseModel):
    """A strict model that keeps what it does not know.

    Numbers are never made from strings or booleans and are always finite; unknown fields (written by a newer minor
    version) are kept, so that reading and writing a report loses nothing.
    """

    model_config = ConfigDict(
        strict=True,
        extra="allow",
        allow_inf_nan=False,
        use_attribute_docstrings=True,
        defer_build=True,  # Validators are built when first used: importing stays cheap.
    )
