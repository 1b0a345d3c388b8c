"""Looks names that our modules lack up in paddle.profiler's own modules."""

from __future__ import annotations

import functools
import importlib.util
import sys
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import ModuleType


def names_of(module: str) -> Callable[[str], Any]:
    """Return a ``__getattr__`` that looks names up in a module of paddle.profiler."""

    def look_up(name: str) -> Any:
        problem = f"module 'stepscope.paddle.{module}' has no attribute {name!r}"
        if name.startswith("__"):  # the import system asks every module for these
            raise AttributeError(problem)
        try:
            theirs = _paddles(module)
        except ImportError as error:
            raise AttributeError(f"{problem}: it would be Paddle's, and {error}") from None
        return getattr(theirs, name)

    return look_up


def _paddles(module: str) -> ModuleType:
    import_module("paddle")
    loaded = sys.modules.get(f"paddle.profiler.{module}")
    if loaded is None:
        loaded = import_module(f"paddle.profiler.{module}")
    return _beside_ours(module) if loaded.__name__.startswith("stepscope.") else loaded


@functools.cache
def _beside_ours(module: str) -> ModuleType:
    """Load Paddle's own module although ours stands in ``sys.modules`` under its name."""
    folder = Path(str(sys.modules["paddle"].__file__)).parent / "profiler"
    # The name is inside Paddle's package, for relative imports.
    name = f"paddle.profiler._paddles_{module}"
    spec = importlib.util.spec_from_file_location(name, folder / f"{module}.py")
    if spec is None or spec.loader is None:
        raise ImportError(f"{folder} has no {module}")
    loaded = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(loaded)
    return loaded
