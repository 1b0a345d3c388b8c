"""Stepscope as the profiler of training libraries.

=========================  =========================================================================
``LightningProfiler``      for ``Trainer(profiler=...)`` of Lightning
``TransformersCallback``   for ``Trainer(callbacks=[...])`` of Transformers
``AccelerateProfile``      for ``Accelerator(kwargs_handlers=[...])`` of Accelerate
=========================  =========================================================================

Importing this package imports neither these classes nor their libraries.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from stepscope.lazy import lazy_names, loader

if TYPE_CHECKING:
    from collections.abc import Callable

    from stepscope.integrations.accelerate import AccelerateProfile
    from stepscope.integrations.late import Late
    from stepscope.integrations.lightning import LightningProfiler
    from stepscope.integrations.transformers import TransformersCallback

__all__ = ["AccelerateProfile", "LightningProfiler", "TransformersCallback"]


def _based(load: Callable[[], type[Late]]) -> Callable[[], type[Late]]:
    """Return a loader of a class with its library's base, once the program has imported that."""
    return lambda: load().ready()


__getattr__, __dir__ = lazy_names(
    __name__,
    made={
        "AccelerateProfile": _based(loader("stepscope.integrations.accelerate:AccelerateProfile")),
        "LightningProfiler": _based(loader("stepscope.integrations.lightning:LightningProfiler")),
        "TransformersCallback": _based(
            loader("stepscope.integrations.transformers:TransformersCallback")
        ),
    },
)
