"""PyTorch operators through torch's own collector: slower, but it needs no compiler."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from stepscope import _native
from stepscope.errors import StepscopeError
from stepscope.record.capture import thread_track
from stepscope.record.source import Source
from stepscope.record.threads import thread_names
from stepscope.trace.build import Captured
from stepscope.trace.model import NO_SEQUENCE, NO_THREAD, SliceFlags
from stepscope.trace.schema import Slices
from stepscope.trace.strings import Strings

if TYPE_CHECKING:
    from collections.abc import Sequence

_BACKWARD_FUNCTION = 1  # at::RecordScope
_USER_SCOPE = 7


class Kineto(Source):
    """torch's collector, driven through its low-level interface."""

    name = "torch"

    def __init__(self, torch: Any, why: str) -> None:
        """Take an imported torch, and why the bridge is not used."""
        self._torch = torch
        self._why = why
        self._results: Any = None
        self._prepared = False

    def prepare(self) -> None:
        """Let the collector warm up; this takes it away from whoever has it."""
        if self._torch.autograd._profiler_enabled():
            raise StepscopeError(
                "torch.profiler is active, and torch's collector serves one user at a time: stop "
                "it first, or install a C++ compiler so that Stepscope can use its own bridge"
            )
        self._torch.autograd._prepare_profiler(*self._options())
        self._prepared = True

    def start(self) -> None:
        """Begin to collect on the calling thread and those it starts."""
        if not self._prepared:
            self.prepare()
        self._torch.autograd._enable_profiler(*self._options())

    def stop(self) -> None:
        """End collecting."""
        self._results = self._torch.autograd._disable_profiler()
        self._prepared = False

    def collect(self) -> Captured | None:
        """Turn the collector's event objects into columns."""
        results, self._results = self._results, None
        return _columns(results.events()) if results is not None else None

    def describe(self) -> str:
        """Say what is used, and why not the bridge."""
        return (
            f"operators of torch {self._torch.__version__} on the starting thread, "
            f"through torch's own collector: {self._why}"
        )

    def _options(self) -> tuple[Any, set[Any]]:
        autograd = self._torch.autograd
        profiler = self._torch._C._profiler
        state = autograd.ProfilerState.KINETO
        try:
            experimental = profiler._ExperimentalConfig(capture_overload_names=True)
        except TypeError:  # older versions of torch
            experimental = profiler._ExperimentalConfig()
        config = autograd.ProfilerConfig(state, False, False, False, False, False, experimental)
        return config, {profiler.ProfilerActivity.CPU}


class _Table:
    """Strings or tracks by first sight."""

    def __init__(self, *first: Any) -> None:
        self.rows: dict[Any, int] = {row: i for i, row in enumerate(first)}

    def id_of(self, row: Any) -> int:
        return self.rows.setdefault(row, len(self.rows))


def _columns(events: Sequence[Any]) -> Captured:
    events = [e for e in events if not e.is_hidden_event() and str(e.device_type()).endswith("CPU")]
    strings = _Table("", "cpu_op", "user_annotation")
    threads = _Table()
    names = np.zeros((3, len(events)), np.uint32)  # category, name, overload
    numbers = np.zeros((4, len(events)), np.int64)  # start, duration, sequence, forward thread
    track = np.zeros(len(events), np.uint32)
    flags = np.zeros(len(events), np.uint8)
    for i, event in enumerate(events):
        category = "user_annotation" if event.scope() == _USER_SCOPE else "cpu_op"
        overload = event.overload_name() if hasattr(event, "overload_name") else ""
        names[:, i] = [strings.id_of(text) for text in (category, event.name(), overload)]
        forward = event.fwd_thread_id() or NO_THREAD
        sequence = event.sequence_nr() if event.sequence_nr() >= 0 else NO_SEQUENCE
        numbers[:, i] = (event.start_ns(), event.duration_ns(), sequence, forward)
        track[i] = threads.id_of((event.device_resource_id(), event.start_thread_id()))
        flags[i] = (SliceFlags.BACKWARD if event.scope() == _BACKWARD_FUNCTION else 0) | (
            SliceFlags.ASYNC if event.is_async() else 0
        )
    slices = Slices.of(
        category=names[0],
        name=names[1],
        start_ns=numbers[0] - _native.wall_offset_ns(),  # Kineto's clock is the wall's
        duration_ns=numbers[1],
        track=track,
        overload=names[2],
        flags=flags,
        sequence=numbers[2],
        forward_thread=numbers[3],
    )
    called = thread_names()
    tracks = tuple(
        thread_track(os_id, logical, called.get(os_id, "")) for os_id, logical in threads.rows
    )
    return Captured(slices, tracks, Strings.of(strings.rows))
