"""The frameworks that Stepscope knows; each folder registers what it brings when it is imported."""

from stepscope.frameworks import cuda, paddle, python, torch

__all__ = ["cuda", "paddle", "python", "torch"]
