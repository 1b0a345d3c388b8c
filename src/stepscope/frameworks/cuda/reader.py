"""The common part of sources that read devices from a native thread."""

from __future__ import annotations

import os
from abc import abstractmethod
from typing import TYPE_CHECKING, Any, ClassVar, Generic, Self, TypeVar

from stepscope import _native
from stepscope.notices import notify
from stepscope.record.source import Source, Stage

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from stepscope.record.limits import MemoryLimit
    from stepscope.record.options import RecordOptions
    from stepscope.trace.schema import Captured


_Reader = TypeVar("_Reader", _native.PowerSampler, _native.CounterSampler)


class UnreadableError(Exception):
    """Devices cannot be read here."""


class DeviceReader(Source, Generic[_Reader]):
    """A source that reads devices. If that fails it warns once, and all else is recorded."""

    stage = Stage.DEVICE
    what: ClassVar[str]  # what is not recorded if this fails
    interval_ns: ClassVar[int]

    def __init__(self, limit: MemoryLimit | None = None) -> None:
        self._limit = limit
        self._obstacle = ""
        self._native: _Reader | None = None
        self._process = 0  # the process that started it: a forked child must not use it
        self._description = ""
        self._lost_before = 0  # events lost before the current start

    @classmethod
    def made_for(cls, _options: RecordOptions, limit: MemoryLimit | None) -> Self:
        return cls(limit)

    @abstractmethod
    def made(self) -> _Reader:
        """Return a native reader; raise RuntimeError or UnreadableError if there is none."""

    @staticmethod
    @abstractmethod
    def captured(
        columns: Mapping[str, Any], devices: Sequence[Mapping[str, Any]]
    ) -> Captured | None:
        """Return the columns of what was read."""

    @abstractmethod
    def described(self, counts: Mapping[str, int], devices: Sequence[Mapping[str, Any]]) -> str:
        """Describe what was read and what that cost."""

    def start(self) -> None:
        self.prepare()
        self._native = None
        self._lost_before = self.lost
        if self._obstacle:
            return
        try:
            native = self.made()
        except (RuntimeError, UnreadableError) as error:
            self.fail(str(error))
            return
        if native.start():
            self._native, self._process = native, os.getpid()
        else:
            self.fail("no thread could be started")

    def fail(self, why: str) -> None:
        self._obstacle = why
        notify(f"{self.what} are not recorded: {why}")

    def stop(self) -> None:
        if (native := self.reading) is not None:
            native.stop()
            self._count(native)

    def devices_of(self, native: _Reader) -> Sequence[Mapping[str, Any]]:
        return native.devices()

    def _count(self, native: _Reader) -> None:
        counts = native.counts()
        self.lost = self._lost_before + counts["lost"]
        self._description = self.described(counts, self.devices_of(native))

    @property
    def reading(self) -> _Reader | None:
        """Return the native reader, also after it has stopped; None in a forked child."""
        return self._native if self._process == os.getpid() else None

    def collect(self) -> Captured | None:
        return self.hand_over()()

    def hand_over(self) -> Callable[[], Captured | None]:
        native, self._native = self.reading, None
        return lambda: self._captured(native)

    def so_far(self) -> Captured | None:
        return self._captured(self.reading)

    def _captured(self, native: _Reader | None) -> Captured | None:
        if native is None:
            return None
        self._count(native)
        return self.captured(native.columns(), self.devices_of(native))

    def describe(self) -> str:
        return f"not recorded: {self._obstacle}" if self._obstacle else self._description
