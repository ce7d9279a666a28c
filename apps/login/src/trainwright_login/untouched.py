"""A command that is given its words as they were typed: all of them, in order, `--` and `--help` among them."""

from typing import Any

from typer.core import TyperCommand


class Untouched(TyperCommand):
    """Leaves the parsing to whoever the words are for; they are in the context's `args`."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Nothing is an option here."""
        ctx.args = list(args)
        return list(args)
