"""The configuration tree: one file for each group of sections, one class that holds them."""

from trainwright.recipes.config.container import ConfigContainer

__all__ = ["ConfigContainer"]
