"""Names of paddle.profiler's modules that are none of ours: they are Paddle's own."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable


def names_of(module: str) -> Callable[[str], Any]:
    """Return a ``__getattr__`` that looks them up in a module of paddle.profiler."""

    where = str(Path(__file__).with_name(f"{module}.py"))

    def look_up(name: str) -> Any:
        problem = f"module 'stepscope.paddle.{module}' has no attribute {name!r}"
        if name.startswith("__"):  # what the import system asks of any module
            raise AttributeError(problem)
        try:
            paddles = import_module(f"paddle.profiler.{module}")
        except ImportError as error:
            raise AttributeError(f"{problem}: it would be Paddle's, and {error}") from None
        if vars(paddles).get("__file__") == where:
            raise AttributeError(problem)  # this one has been put in the place of Paddle's
        return getattr(paddles, name)

    return look_up
