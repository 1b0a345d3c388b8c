"""Stepscope where a training library has a place for a profiler.

=========================  =========================================================================
``LightningProfiler``      for ``Trainer(profiler=...)`` of Lightning
``TransformersCallback``   for ``Trainer(callbacks=[...])`` of Transformers
``AccelerateProfile``      for ``Accelerator(kwargs_handlers=[...])`` of Accelerate
=========================  =========================================================================

Importing this imports nothing else: neither a class here nor its library before it is used.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from stepscope.integrations.accelerate import AccelerateProfile
    from stepscope.integrations.lightning import LightningProfiler
    from stepscope.integrations.transformers import TransformersCallback

_HOMES = {
    "AccelerateProfile": "accelerate",
    "LightningProfiler": "lightning",
    "TransformersCallback": "transformers",
}

__all__ = ["AccelerateProfile", "LightningProfiler", "TransformersCallback"]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        known = ", ".join(__all__)
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}; it has {known}")
    made: Any = getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
    return made.ready()


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
