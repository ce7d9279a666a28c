"""The place in which a page's commands are given, as tests/docs has it."""

from tests.docs.conftest import clone, shell

__all__ = ["clone", "shell"]
