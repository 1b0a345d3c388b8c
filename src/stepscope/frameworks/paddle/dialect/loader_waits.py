"""Tells the benchmark timer when the program waits for a DataLoader, Paddle's or PyTorch's."""

from __future__ import annotations

import functools
import sys
import threading
from typing import TYPE_CHECKING, Any

from stepscope.frameworks.paddle.dialect.timer import running_timers
from stepscope.record.patching import Patches, PatchesWhenImported

if TYPE_CHECKING:
    from collections.abc import Callable

# Private iterators of both frameworks; those that a version lacks are skipped.
_ITERATORS = {
    "torch.utils.data.dataloader": ("_BaseDataLoaderIter",),
    "paddle.io.dataloader.dataloader_iter": (
        "_DataLoaderIterSingleProcess",
        "_DataLoaderIterMultiProcess",
    ),
}


class _Waiting(threading.local):
    now = False


_waiting = _Waiting()


def _timed(plain: Callable[[Any], Any]) -> Callable[[Any], Any]:
    @functools.wraps(plain)
    def next_item(self: Any) -> Any:
        timers = running_timers()
        if _waiting.now or not timers:  # a loader that reads from another one waits once
            return plain(self)
        dataset = getattr(self, "_dataset", self)
        _waiting.now = True
        try:
            for timer in timers:
                timer.read_begins(dataset)
            item = plain(self)
            for timer in timers:
                timer.read_ends()
            return item
        finally:
            _waiting.now = False

    return next_item


def _patch(module: str, patches: Patches) -> None:
    for name in _ITERATORS[module]:
        iterator = getattr(sys.modules[module], name, None)
        if "__next__" in vars(iterator or object):
            patches.wrap(iterator, "__next__", _timed)


_patches = {module: Patches(functools.partial(_patch, module)) for module in _ITERATORS}


class LoaderWaits:
    def __init__(self) -> None:
        self._parts = [PatchesWhenImported(module, patches) for module, patches in _patches.items()]
        self._on = False

    def start(self) -> None:
        if not self._on:
            self._on = True
            for part in self._parts:
                part.start()

    def stop(self) -> None:
        if self._on:
            self._on = False
            for part in reversed(self._parts):
                part.stop()
