"""Lends Paddle's collector, which we hold, to a paddle.profiler of the program's own.

Paddle has one collector, and its profiler fails where that is taken. So the program gets a stand-in
that lends it ours: both have all events of that time.
"""

from __future__ import annotations

import functools
import sys
import weakref
from typing import TYPE_CHECKING, Any

from stepscope.record.patching import Patches

if TYPE_CHECKING:
    from collections.abc import Sequence

    from stepscope.frameworks.paddle.collector import Collector

_PROFILER = "paddle.profiler.profiler"
_CREATOR = "_Profiler"


def lending(collector: Collector) -> Patches:
    """Return the replacements, for an imported paddle."""
    return Patches(functools.partial(_patch, collector))


def _patch(collector: Collector, patches: Patches) -> None:
    creator = _Creator(collector, getattr(collector.core, _CREATOR))
    stand_ins = {
        _CREATOR: creator,
        "enable_memory_recorder": lambda: collector.want_memory(True),
        "disable_memory_recorder": lambda: collector.want_memory(False),
    }
    profiler: Any = sys.modules[_PROFILER]
    for name, stand_in in stand_ins.items():
        if name in vars(profiler):  # the program may have put ours in its place
            patches.replace(profiler, name, stand_in)
    patches.replace(collector.core, _CREATOR, creator)


class _Creator:
    """Stands for Paddle's class of profilers."""

    def __init__(self, collector: Collector, plain: Any) -> None:
        self._collector = collector
        self._plain = plain
        self._made: weakref.ref[_Lent] | None = None

    def __getattr__(self, name: str) -> Any:
        return getattr(self._plain, name)

    def create(self, options: Any, custom_devices: Sequence[str] = ()) -> Any:
        """Return a profiler; None, as Paddle does, while the program has another."""
        if not self._collector.holds_slot:
            return self._plain.create(options, custom_devices)
        if self._made is not None and self._made() is not None:
            return None
        made = _Lent(self._collector, options, custom_devices)
        self._made = weakref.ref(made)
        return made


class _Lent:
    """Paddle's profiler as paddle.profiler.Profiler uses it; it may outlive our recordings.

    A program that drops it without stopping gives it back: the collector looks.
    """

    def __init__(self, collector: Collector, options: Any, custom_devices: Sequence[str]) -> None:
        self._collector = collector
        self._wanted = options, custom_devices
        self._has_started = False

    def prepare(self) -> None:
        """Do nothing: starting ours is quick."""

    def start(self) -> None:
        self._collector.lend(*self._wanted, borrower=self)
        self._has_started = True

    def stop(self) -> Any:
        if not self._has_started:
            return None
        self._has_started = False
        return self._collector.take_back()
