"""Calls of Paddle's models: layers that are called outside of any other layer's call."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

from stepscope.record.outermost_calls import ModelCalls, OutermostCalls

if TYPE_CHECKING:
    from collections.abc import Callable


def _find() -> tuple[type, Callable[[], bool]] | None:
    paddle: Any = sys.modules.get("paddle")
    if not hasattr(paddle, "_C_ops"):  # a module of the program's own that is called so
        return None
    return paddle.nn.Layer, paddle.is_grad_enabled


MODEL_CALLS = OutermostCalls(_find)


class PaddleModelCalls(ModelCalls):
    """The source."""

    name = "paddle models"
    module = "paddle"
    calls = MODEL_CALLS
