"""Calls of PyTorch models: modules that are called outside of any other module's call."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

from stepscope.record.outermost_calls import ModelCalls, OutermostCalls

if TYPE_CHECKING:
    from collections.abc import Callable


def _find() -> tuple[type, Callable[[], bool]] | None:
    torch: Any = sys.modules.get("torch")
    if not hasattr(torch, "_C"):  # a module of the program's own that is called so
        return None
    return torch.nn.Module, torch.is_grad_enabled


MODEL_CALLS = OutermostCalls(_find)


class TorchModelCalls(ModelCalls):
    """The source."""

    name = "torch models"
    module = "torch"
    calls = MODEL_CALLS
