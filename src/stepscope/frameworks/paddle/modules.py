"""Calls of Paddle's models and of the layers in them."""

from __future__ import annotations

import math
import sys
from typing import TYPE_CHECKING, Any

from stepscope.record.module_calls import AllModuleCalls, ModelCalls, ModuleCalls

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable


def _find() -> tuple[type, Callable[[], bool]] | None:
    paddle: Any = sys.modules.get("paddle")
    if not hasattr(paddle, "_C_ops"):  # another module of this name
        return None
    return paddle.nn.Layer, paddle.is_grad_enabled


class _PaddleAnatomy:
    def named_modules(self, model: Any) -> Iterable[tuple[str, Any]]:
        layers: Iterable[tuple[str, Any]] = model.named_sublayers(include_self=True)
        return layers

    def parameter_sizes(self, module: Any, *, of_all_below: bool) -> Iterable[int | None]:
        parameters = module.parameters(include_sublayers=of_all_below)
        return [math.prod(parameter.shape) for parameter in parameters]


PADDLE_LAYERS = ModuleCalls(_find, _PaddleAnatomy(), tells_input=True)


class PaddleModelCalls(ModelCalls):
    name = "paddle models"
    module = "paddle"
    calls = PADDLE_LAYERS


class PaddleLayers(AllModuleCalls):
    name = "paddle layers"
    module = "paddle"
    calls = PADDLE_LAYERS
    of_what = "paddle.nn.Layer"
