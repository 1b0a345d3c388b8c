"""The Trace: what every source fills, every analysis reads and every renderer writes.

Events are rows of NumPy columns, never Python objects. All times are integer nanoseconds on the
trace's own clock; ``TraceInfo.wall_offset_ns`` added to them gives Unix time.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field, fields
from enum import IntEnum, IntFlag
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from stepscope.registry import Registry

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from os import PathLike

    import pandas
    import polars

    from stepscope.trace.strings import Strings

Int64 = NDArray[np.int64]
Int32 = NDArray[np.int32]
UInt32 = NDArray[np.uint32]
UInt8 = NDArray[np.uint8]

PRODUCER = "stepscope"  # TraceInfo.producer of our own recordings

NO_PARENT = -1
NO_STEP = -1
NO_SEQUENCE = -1
NO_CORRELATION = -1
NO_THREAD = -1
NO_SLICE = -1
NO_STACK = 0


class SliceKind(IntEnum):
    """What a slice is, whatever the tool that wrote the trace called it."""

    OTHER = 0
    OPERATOR = 1
    RANGE = 2
    STEP = 3
    PYTHON = 4
    RUNTIME = 5
    KERNEL = 6
    MEMCPY = 7
    MEMSET = 8
    SYNC = 9
    DEVICE_RANGE = 10
    MODULE = 11  # a call of a neural network's module, by its qualified name


DEVICE_KINDS = (
    SliceKind.KERNEL,
    SliceKind.MEMCPY,
    SliceKind.MEMSET,
    SliceKind.SYNC,
    SliceKind.DEVICE_RANGE,
)


class SliceFlags(IntFlag):
    """What is special about one slice."""

    UNFINISHED = 1  # still open when recording stopped; its end is the end of the recording
    ASYNC = 2  # ended on another thread than it started on
    BACKWARD = 4  # a function of the backward pass


class MemoryOwner(IntEnum):
    """What a block of memory holds, as far as the program told."""

    PARAMETER = 1
    GRADIENT = 2
    OPTIMIZER_STATE = 3
    INPUT = 4


@dataclass(frozen=True, slots=True)
class IntColumn:
    """A sparse integer column: ``values[i]`` belongs to row ``rows[i]``; rows ascend."""

    rows: UInt32
    values: Int64


@dataclass(frozen=True, slots=True)
class Args:
    """The key-value pairs of a table's rows.

    Integers are sparse columns by key. Everything else of a row is one JSON fragment without its
    braces (``"Input Dims": [[2, 3]], "grid": [1, 1, 1]``), interned: ``rest`` holds its string id,
    0 (the empty string) when there is none. An empty ``rest`` array stands for all zeros.
    """

    integers: Mapping[str, IntColumn] = field(default_factory=dict)
    rest: UInt32 = field(default_factory=lambda: np.zeros(0, np.uint32))

    def dense(self, key: str, rows: int, default: int) -> Int64:
        """Return one integer column with a value for each of ``rows`` rows."""
        column = np.full(rows, default, np.int64)
        if key in self.integers:
            sparse = self.integers[key]
            column[sparse.rows] = sparse.values
        return column

    def of_row(self, row: int, strings: Strings) -> dict[str, Any]:
        """Return all pairs of one row; slow, for showing a single event."""
        pairs: dict[str, Any] = {}
        for key, column in self.integers.items():
            at = int(np.searchsorted(column.rows, row))
            if at < len(column.rows) and column.rows[at] == row:
                pairs[key] = int(column.values[at])
        if len(self.rest) and self.rest[row]:
            pairs.update(json.loads("{" + strings[int(self.rest[row])] + "}", strict=False))
        return pairs


@dataclass(frozen=True, slots=True)
class Slices:
    """Everything that has a start and a duration, ordered by start, the longer first."""

    kind: UInt8  # SliceKind
    flags: UInt8  # SliceFlags
    category: UInt32  # string id: the word of the tool that wrote it, "cpu_op" for operators
    name: UInt32  # string id
    overload: UInt32  # string id: the operator's overload, "" for everything else
    start_ns: Int64
    duration_ns: Int64
    self_ns: Int64  # duration less that of the direct children on the same track
    track: UInt32  # row of Tracks
    parent: Int32  # row of Slices, NO_PARENT at the top
    depth: Int32
    step: Int32  # the number of the step it started in, NO_STEP outside
    sequence: Int64  # ties a backward function to its forward operator, NO_SEQUENCE without
    forward_thread: Int64  # the recording tool's id of the forward thread, NO_THREAD without
    correlation: Int64  # ties a device slice to its launch, NO_CORRELATION without
    stack: UInt32  # row of Stacks: the Python frames in which it started, NO_STACK without
    args: Args = field(default_factory=Args)
    fields: Args = field(default_factory=Args)  # what stood beside args in a foreign trace

    def __len__(self) -> int:
        """Return the number of slices."""
        return len(self.start_ns)

    @property
    def end_ns(self) -> Int64:
        """Return start plus duration."""
        return self.start_ns + self.duration_ns


@dataclass(frozen=True, slots=True)
class Marks:
    """Everything else with a time: flow points, instants and counters of foreign traces."""

    phase: UInt8  # the Chrome phase's letter: s, t, f flow; i instant; C counter; b, n, e async
    category: UInt32
    name: UInt32
    time_ns: Int64
    track: UInt32
    args: Args = field(default_factory=Args)
    fields: Args = field(default_factory=Args)  # a flow's "id", "bp"; an instant's scope "s"

    def __len__(self) -> int:
        """Return the number of marks."""
        return len(self.time_ns)

    @staticmethod
    def empty() -> Marks:
        """Return a table without rows."""
        ids = np.zeros(0, np.uint32)
        return Marks(np.zeros(0, np.uint8), ids, ids, np.zeros(0, np.int64), ids)


@dataclass(frozen=True, slots=True)
class Stacks:
    """Call stacks as a tree: each row adds a frame to the row of its callers.

    Row 0 is the empty stack, and its own parent.
    """

    parent: UInt32  # row of Stacks, always a lower one
    frame: UInt32  # string id: ``model.py(12): forward``, the line that was being executed

    def __len__(self) -> int:
        """Return the number of stacks."""
        return len(self.parent)

    def frames(self, row: int) -> list[int]:
        """Return the string ids of a stack's frames, the innermost first."""
        frames = []
        while row:
            frames.append(int(self.frame[row]))
            row = int(self.parent[row])
        return frames

    @staticmethod
    def empty() -> Stacks:
        """Return the table with the empty stack only."""
        return Stacks(np.zeros(1, np.uint32), np.zeros(1, np.uint32))


@dataclass(frozen=True, slots=True)
class Memory:
    """Every allocation and release of memory, in the order of time."""

    time_ns: Int64
    address: Int64  # the 64 bits of the pointer
    size: Int64  # bytes; negative when they are given back
    device: UInt32  # string id: "cpu", "cuda:0"
    track: UInt32  # row of Tracks: the thread that asked
    slice: Int32  # row of Slices: the innermost one then running on that thread, NO_SLICE without
    allocated: Int64  # bytes in use on the device after it
    reserved: Int64  # bytes that the allocator holds after it, 0 when it does not say

    def __len__(self) -> int:
        """Return the number of events."""
        return len(self.time_ns)

    @staticmethod
    def empty() -> Memory:
        """Return a table without rows."""
        ids, numbers = np.zeros(0, np.uint32), np.zeros(0, np.int64)
        rows = np.zeros(0, np.int32)
        return Memory(numbers, numbers, numbers, ids, ids, rows, numbers, numbers)


@dataclass(frozen=True, slots=True)
class Owners:
    """What the program said of blocks of memory: at that time, this one held a parameter."""

    time_ns: Int64
    address: Int64
    size: Int64  # bytes
    device: UInt32  # string id: "cpu", "cuda:0"
    owner: UInt8  # MemoryOwner

    def __len__(self) -> int:
        """Return the number of statements."""
        return len(self.time_ns)

    @staticmethod
    def empty() -> Owners:
        """Return a table without rows."""
        numbers = np.zeros(0, np.int64)
        return Owners(numbers, numbers, numbers, np.zeros(0, np.uint32), np.zeros(0, np.uint8))


@dataclass(frozen=True, slots=True)
class Track:
    """One line of the timeline: a thread of a process, or a stream of a device."""

    pid: str  # as the tool wrote it: most are numbers, foreign traces hold words too
    tid: str
    process_name: str = ""
    thread_name: str = ""
    process_label: str = ""
    process_sort: int | None = None
    thread_sort: int | None = None
    logical_id: int = NO_THREAD  # the framework's own small number for the thread


@dataclass(frozen=True, slots=True)
class Losses:
    """What was seen but could not be kept, and why."""

    events: int = 0
    policy: str = ""  # "newest" or "oldest" were dropped
    limit_bytes: int = 0


@dataclass(frozen=True, slots=True)
class TraceInfo:
    """Where a trace comes from and how far its numbers can be trusted."""

    producer: str
    start_ns: int = 0  # the recorded window, on the trace's clock
    end_ns: int = 0
    wall_offset_ns: int = 0
    host: str = ""
    pid: int = 0
    rank: int | None = None
    world_size: int | None = None
    versions: Mapping[str, str] = field(default_factory=dict)
    sources: Mapping[str, str] = field(default_factory=dict)  # what each says of itself
    losses: Losses = field(default_factory=Losses)
    overhead_ns: float = 0.0  # calibrated cost of recording one event
    devices: Sequence[Mapping[str, Any]] = ()  # in Kineto's words: "id", "name", "numSms"
    code_folders: Sequence[str] = ()  # where the files that frames name were imported from
    anomalies: Mapping[str, int] = field(default_factory=dict)  # odd things met, and how many
    user: Mapping[str, Any] = field(default_factory=dict)  # the user's, or a foreign file's


@dataclass(frozen=True, slots=True)
class Trace:
    """A recording, or a file that was read: immutable columns and their meaning."""

    slices: Slices
    tracks: tuple[Track, ...]
    strings: Strings
    info: TraceInfo
    marks: Marks = field(default_factory=Marks.empty)
    stacks: Stacks = field(default_factory=Stacks.empty)
    memory: Memory = field(default_factory=Memory.empty)
    owners: Owners = field(default_factory=Owners.empty)

    def __len__(self) -> int:
        """Return the number of slices."""
        return len(self.slices)

    def name_of(self, row: int) -> str:
        """Return the name of one slice."""
        return self.strings[int(self.slices.name[row])]

    def names(self) -> Iterator[str]:
        """Yield the name of every slice."""
        decoded = self.strings.decode_all()
        return (decoded[i] for i in self.slices.name)

    @property
    def losses(self) -> Losses:
        """Return what could not be kept."""
        return self.info.losses

    def to_polars(self) -> polars.DataFrame:
        """Return the slices as a Polars DataFrame, names and threads spelled out."""
        from stepscope.trace.frames import slices_frame

        return slices_frame(self)

    def to_pandas(self) -> pandas.DataFrame:
        """Return the slices as a pandas DataFrame (needs pandas and pyarrow)."""
        return self.to_polars().to_pandas()

    def save(self, path: str | PathLike[str], *, overwrite: bool = False) -> None:
        """Write the trace as a folder of Arrow files."""
        from stepscope.trace.store import save

        save(self, path, overwrite=overwrite)

    def _repr_html_(self) -> str:
        """Return the overview for a notebook."""
        return "".join(show(self) for show in NOTEBOOK)

    @staticmethod
    def load(path: str | PathLike[str]) -> Trace:
        """Read a folder that ``save`` wrote."""
        from stepscope.trace.store import load

        return load(path)


# Whoever can draw a trace for a notebook; the report does.
NOTEBOOK: Registry[Callable[[Trace], str]] = Registry()


def column_names() -> tuple[str, ...]:
    """Return the names of the slice columns, in order."""
    return tuple(f.name for f in fields(Slices) if f.name not in {"args", "fields"})
