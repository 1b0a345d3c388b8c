"""Shares Paddle's own collector, of which a process has one, among our recordings.

Its slot is taken by the first recording and freed after the last. Paddle returns events only when
the collector stops, so a recording that begins or ends during another one cuts the other's events
into two segments; what is running at the cut is lost.

The program may use a paddle.profiler of its own, which fails while the slot is taken. So it gets a
stand-in that lends it our collector. What is collected meanwhile belongs to the program, uncut, and
is also a segment of all our recordings.
"""

from __future__ import annotations

import functools
import os
import sys
import threading
import weakref
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from stepscope import _native
from stepscope.notices import notify
from stepscope.record.patching import Patches

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

_CPU = 1  # the host's bit in Paddle's trace_switch; devices are recorded by another source
_STEP_OF_CLOCK_NS = 1_000  # more than two successive readings of clocks can differ
_WARNING = 1  # the glog level above INFO
_STILL_LENT = (
    "Paddle's operators since the program started its own paddle.profiler are not in this "
    "recording: it ended before that did"
)
_MIN_LOG_LEVEL = "_ZN3fLI17FLAGS_minloglevelE"  # the symbol of glog's variable in Paddle's library


@dataclass(slots=True)
class Segment:
    """What Paddle collected between one start and one stop."""

    result: Any  # Paddle's _ProfilerResult; None once it is read
    wall_offset_ns: int
    _data: bytes = b""

    def data(self, core: Any) -> bytes:
        """Return the segment as Paddle's protobuf."""
        if self.result is not None:
            self._data = _serialized(self.result, core)
            self.result = None
        return self._data


@dataclass(eq=False, slots=True)
class Share:
    """One recording's share in the collector: what it wants and the segments it received."""

    memory: bool
    segments: list[Segment]


class Collector:
    """Paddle's collector, of which a process has one, and the recordings that share it."""

    def __init__(self, core: Any) -> None:
        self.core = core
        self._create = core._Profiler.create  # before the program may see our stand-in
        self._lock = threading.RLock()
        self._profiler: Any = None  # Paddle's slot is taken while this object lives
        self._running = False
        self._started_offset_ns = 0
        self._shares: list[Share] = []
        self._borrower: weakref.ref[Any] | None = None  # the program's profiler
        self._program_wants_memory = False
        os.register_at_fork(after_in_child=_native.shielded(self._forget_in_child))

    @property
    def holds_slot(self) -> bool:
        return self._profiler is not None

    @property
    def is_lent(self) -> bool:
        """Tell whether the program's own profiler has it; one that was dropped does not."""
        if self._borrower is not None and self._borrower() is None:
            self.take_back()
        return self._borrower is not None

    def open(self, share: Share) -> bool:
        """Collect for one more recording; False if another profiler has the collector."""
        with self._lock:
            if self.is_lent or (self._profiler is None and not self._take_slot()):
                return False
            self._cut()
            self._shares.append(share)
            self._run()
            return True

    def close(self, share: Share) -> None:
        """Stop collecting for a recording; the last one frees the collector."""
        with self._lock:
            if share not in self._shares:  # it was never opened, or its parent process opened it
                return
            if self.is_lent:  # without the program's profiler, what it collected cannot be read
                notify(_STILL_LENT)
                self._shares.remove(share)
                return
            self._cut()
            self._shares.remove(share)
            self._go_on()

    # Use by the program's own profiler.

    def lend(self, options: Any, custom_devices: Sequence[str], borrower: object) -> None:
        """Collect for the program's own profiler, with its options, and for our recordings."""
        with self._lock:
            self._cut()
            self._profiler = None
            options.trace_switch |= _CPU
            if self._take_slot(options, custom_devices):
                self._borrower = weakref.ref(borrower)
                self._run()

    def take_back(self) -> Any:
        """Return Paddle's own result of what was collected for the program."""
        with self._lock:
            self._borrower = None
            try:
                return self._end_segment()
            finally:
                self._go_on()

    def want_memory(self, wanted: bool) -> None:
        with self._lock:
            self._program_wants_memory = wanted
            if wanted:
                self.core.enable_memory_recorder()
            elif not any(share.memory for share in self._shares):
                self.core.disable_memory_recorder()

    def _go_on(self) -> None:
        """Collect for the remaining recordings; without any, free the collector."""
        self._profiler = None
        if self._shares and self._take_slot():
            self._run()

    def _take_slot(self, options: Any = None, custom_devices: Sequence[str] = ()) -> bool:
        if options is None:
            options = self.core.ProfilerOptions()
            options.trace_switch = _CPU
        self._profiler = self._create(options, list(custom_devices))
        return self._profiler is not None

    def _run(self) -> None:
        if self._program_wants_memory or any(share.memory for share in self._shares):
            self.core.enable_memory_recorder()
        self._started_offset_ns = _native.wall_offset_ns()
        self._profiler.prepare()
        self._profiler.start()
        self._running = True

    def _cut(self) -> None:
        if not self._running:
            return
        try:
            self._end_segment()
        except Exception as error:  # the rest of the trace must be saved
            notify(f"Paddle's collector lost its events: {str(error).strip() or error!r}")

    def _end_segment(self) -> Any:
        self._running = False
        self.core.disable_memory_recorder()
        result = self._profiler.stop()
        offset_ns = _native.wall_offset_ns()
        if abs(offset_ns - self._started_offset_ns) > _STEP_OF_CLOCK_NS:
            notify(
                "the system clock was changed while recording: Paddle's events, which are timed by "
                f"it, may be off by {abs(offset_ns - self._started_offset_ns) / 1e3:.0f} us"
            )
        segment = Segment(result, offset_ns)
        for share in self._shares:
            share.segments.append(segment)
        return result

    def _forget_in_child(self) -> None:
        # The parent's collector runs here, too, until a recording of the child cuts it. Stopping it
        # now might wait for a lock of a thread that does not exist here.
        self._lock = threading.RLock()
        self._shares = []


def _serialized(result: Any, core: Any) -> bytes:
    """Return Paddle's result in its file format, which is the only interface to it."""
    with _quiet(core):
        if hasattr(os, "memfd_create"):
            return _through_memory(result)
        import tempfile

        with tempfile.TemporaryDirectory(prefix="stepscope-") as folder:
            path = Path(folder) / "paddle.pb"
            result.save(str(path), "pb")
            return path.read_bytes()


def _through_memory(result: Any) -> bytes:
    file = os.memfd_create("stepscope-paddle")
    try:
        result.save(f"/proc/self/fd/{file}", "pb")
        with open(file, "rb", closefd=False) as written:
            return written.read()
    finally:
        os.close(file)


@contextmanager
def _quiet(core: Any) -> Iterator[None]:
    import ctypes

    try:
        library = ctypes.CDLL(core.libpaddle.__file__)
        level = ctypes.c_int.in_dll(library, _MIN_LOG_LEVEL)
    except (AttributeError, OSError, ValueError):  # a build without glog; the line is harmless
        yield
        return
    before = level.value
    level.value = max(before, _WARNING)
    try:
        yield
    finally:
        level.value = before


# ---- lending

_PROFILER = "paddle.profiler.profiler"
_CREATOR = "_Profiler"


def lending(collector: Collector) -> Patches:
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
        if name in vars(profiler):  # the program may have replaced it by ours
            patches.replace(profiler, name, stand_in)
    patches.replace(collector.core, _CREATOR, creator)


class _Creator:
    def __init__(self, collector: Collector, plain: Any) -> None:
        self._collector = collector
        self._plain = plain
        self._made: weakref.ref[_Lent] | None = None

    def __getattr__(self, name: str) -> Any:
        return getattr(self._plain, name)

    def create(self, options: Any, custom_devices: Sequence[str] = ()) -> Any:
        """Return a profiler, or None while the program has another, as Paddle does."""
        if not self._collector.holds_slot:
            return self._plain.create(options, custom_devices)
        if self._made is not None and self._made() is not None:
            return None
        made = _Lent(self._collector, options, custom_devices)
        self._made = weakref.ref(made)
        return made


class _Lent:
    """Stands in for Paddle's profiler in paddle.profiler.Profiler; it may outlive our recordings.

    If the program drops it without stopping it, the collector notices and takes itself back.
    """

    def __init__(self, collector: Collector, options: Any, custom_devices: Sequence[str]) -> None:
        self._collector = collector
        self._wanted = options, custom_devices
        self._has_started = False

    def prepare(self) -> None:
        """Do nothing: our start needs no preparation."""

    def start(self) -> None:
        self._collector.lend(*self._wanted, borrower=self)
        self._has_started = True

    def stop(self) -> Any:
        if not self._has_started:
            return None
        self._has_started = False
        return self._collector.take_back()
