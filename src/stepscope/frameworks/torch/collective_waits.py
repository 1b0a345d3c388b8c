"""Where a program waits for a collective: without a range, that looks like a lock's."""

from __future__ import annotations

import functools
import sys
from typing import TYPE_CHECKING, Any

from stepscope._native import begin_slice, end_slice
from stepscope.frameworks.torch.options import COLLECTIVE_WAITS
from stepscope.record.patching import Patches, PatchesWhenImported
from stepscope.record.phase_ranges import RANGE_KIND
from stepscope.record.source import Source

if TYPE_CHECKING:
    from collections.abc import Callable

NAME = "c10d:wait"


class TorchCollectiveWaits(Source):
    """Makes a range for each ``Work.wait`` that Python calls, also of synchronous collectives."""

    name = "waits of torch.distributed"
    when = COLLECTIVE_WAITS

    def __init__(self) -> None:
        self._patches = PatchesWhenImported("torch.distributed", _patches)

    def start(self) -> None:
        self._patches.start()

    def stop(self) -> None:
        self._patches.stop()


def _patch(patches: Patches) -> None:
    c10d: Any = sys.modules.get("torch._C._distributed_c10d")
    if c10d is not None:
        patches.wrap(c10d.Work, "wait", _waiting)


def _waiting(plain: Callable[..., Any]) -> Callable[..., Any]:
    def wait(*args: Any, **kwargs: Any) -> Any:
        if not _patches.in_use:
            return plain(*args, **kwargs)
        handle = begin_slice(RANGE_KIND, NAME, "")
        try:
            return plain(*args, **kwargs)
        finally:
            end_slice(handle)

    return functools.wraps(plain)(wait)


_patches = Patches(_patch)
