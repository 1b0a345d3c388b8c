"""Calls of PyTorch models and of the modules in them."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

from stepscope.frameworks.torch.dynamo import keep_dynamo_out
from stepscope.frameworks.torch.unseen import unseen
from stepscope.record.module_calls import AllModuleCalls, ModelCalls, ModuleCalls

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable


def _find() -> tuple[type, Callable[[], bool]] | None:
    torch: Any = sys.modules.get("torch")
    if not hasattr(torch, "_C"):  # another module of this name
        return None
    keep_dynamo_out()
    return torch.nn.Module, torch.is_grad_enabled


class _TorchAnatomy:
    def named_modules(self, model: Any) -> Iterable[tuple[str, Any]]:
        modules: Iterable[tuple[str, Any]] = model.named_modules()
        return modules

    def parameter_sizes(self, module: Any, *, of_all_below: bool) -> Iterable[int | None]:
        from torch.nn.parameter import is_lazy

        with unseen():
            parameters = module.parameters(recurse=of_all_below)
            return [None if is_lazy(parameter) else parameter.numel() for parameter in parameters]


TORCH_MODULES = ModuleCalls(_find, _TorchAnatomy())


class TorchModelCalls(ModelCalls):
    name = "torch models"
    module = "torch"
    calls = TORCH_MODULES


class TorchModules(AllModuleCalls):
    name = "torch modules"
    module = "torch"
    calls = TORCH_MODULES
    of_what = "torch.nn.Module"
