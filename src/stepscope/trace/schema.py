"""The schema: every table and column of a Trace, stated once. Everything else is derived from it.

All times are integer nanoseconds on the trace's own clock; ``TraceInfo.wall_offset_ns`` added to
them gives Unix time. A column is one line here; ``docs/trace.md`` is made from this module.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from stepscope.trace.keys import CAPTURED_NODE, EXTERNAL_ID
from stepscope.trace.kinds import (
    DEVICE_KINDS,
    SliceFlags,
    SliceKind,
    ThreadState,
    UseRole,
    WaitReason,
)
from stepscope.trace.table import (
    Args,
    Column,
    Role,
    Table,
    add_column,
    added_columns,
    arguments,
    column,
)

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray

    from stepscope.trace.strings import Strings
    from stepscope.trace.table import Bool, Int32, Int64, UInt8, UInt32

PRODUCER = "stepscope"  # TraceInfo.producer of our own recordings

NO_PARENT = -1
NO_STEP = -1
NO_SEQUENCE = -1
NO_CORRELATION = -1
NO_THREAD = -1
NO_SLICE = -1
NO_STACK = 0

_ON_DEVICE = np.isin(np.arange(256), DEVICE_KINDS)  # by kind: a lookup is faster than isin


@dataclass(frozen=True, slots=True)
class Slices(Table):
    """Everything that has a start and a duration, ordered by start, the longer first."""

    name: UInt32 = column("what ran", np.uint32, Role.TEXT, page="name")
    kind: UInt8 = column(
        "what it is, whatever the tool called it", np.uint8, words=SliceKind, derived=True,
        page="kind",
    )  # fmt: skip
    category: UInt32 = column(
        "what the recording tool calls it: `cpu_op` for operators", np.uint32, Role.TEXT
    )
    overload: UInt32 = column(
        "the operator's overload, empty for everything else", np.uint32, Role.TEXT
    )
    start_ns: Int64 = column(
        "when it started", np.int64, Role.TIME, unit="ns", ascending=True, page="start"
    )
    duration_ns: Int64 = column(
        "how long it took, with all that it enclosed", np.int64, unit="ns", least=0,
        page="duration",
    )  # fmt: skip
    self_ns: Int64 = column(
        "its duration less that of the slices directly inside it, on the same track", np.int64,
        unit="ns", derived=True, least=0, page="self", page_less="duration_ns",
    )  # fmt: skip
    track: UInt32 = column("the thread or stream it ran on", np.uint32, Role.TRACK, page="track")
    step: Int32 = column(
        "the number of the step it started in", np.int32, absent=NO_STEP, derived=True,
        least=NO_STEP, page="step",
    )  # fmt: skip
    parent: Int32 = column(
        "the innermost slice around it on its track", np.int32, Role.SLICE, absent=NO_PARENT,
        derived=True, earlier=True, page="up",
    )  # fmt: skip
    depth: Int32 = column(
        "how many slices are around it", np.int32, derived=True, least=0, page="depth"
    )
    sequence: Int64 = column(
        "ties a backward function to its forward operator", np.int64, Role.LINK, absent=NO_SEQUENCE
    )
    forward_thread: Int64 = column(
        "the recording tool's number of the forward operator's thread", np.int64, absent=NO_THREAD
    )
    correlation: Int64 = column(
        "ties device work to the call that launched it", np.int64, Role.LINK, absent=NO_CORRELATION
    )
    flags: UInt8 = column("what is special about it", np.uint8, words=SliceFlags, page="flags")
    stack: UInt32 = column(
        "the Python frames in which it started", np.uint32, Role.STACK, absent=NO_STACK,
        in_frame=False, page="stack",
    )  # fmt: skip
    context: UInt32 | None = column(
        "the asyncio task it started in: slices of different ones do not nest", np.uint32,
        transient=True,
    )  # fmt: skip
    args: Args = arguments("its arguments", links=(EXTERNAL_ID, CAPTURED_NODE))
    fields: Args = arguments("other fields of the event in a foreign trace")
    added: Mapping[str, NDArray[Any]] = added_columns()

    @property
    def end_ns(self) -> Int64:
        return self.start_ns + self.duration_ns

    @property
    def on_device(self) -> Bool:
        """Return which slices ran on devices."""
        return _ON_DEVICE.take(self.kind)

    def ends_of(self, rows: NDArray[Any] | slice | int) -> Int64:
        """Return when some slices end, without computing a column for all."""
        ends: Int64 = self.start_ns[rows] + self.duration_ns[rows]
        return ends


@dataclass(frozen=True, slots=True)
class Marks(Table):
    """Events with a time and no duration: flow points, instants and counters."""

    phase: UInt8 = column(
        "Chrome's letter: s, t, f flow; i instant; C counter; b, n, e async", np.uint8, letters=True
    )
    category: UInt32 = column("the word of the tool that recorded it", np.uint32, Role.TEXT)
    name: UInt32 = column("what it is called", np.uint32, Role.TEXT)
    time_ns: Int64 = column("when it was", np.int64, Role.TIME, unit="ns")
    track: UInt32 = column("the thread or stream it belongs to", np.uint32, Role.TRACK)
    args: Args = arguments("its arguments", links=(EXTERNAL_ID,))
    fields: Args = arguments("a flow's `id` and `bp`, an instant's scope `s`", links=("id",))
    added: Mapping[str, NDArray[Any]] = added_columns()


@dataclass(frozen=True, slots=True)
class Stacks(Table):
    """Call stacks as a tree: each row adds a frame to the row of its callers.

    Row 0 is the empty stack, and its own parent.
    """

    parent: UInt32 = column("the callers, always a lower row", np.uint32, Role.STACK, earlier=True)
    frame: UInt32 = column(
        "`model.py(12): forward`, the line that was being executed", np.uint32, Role.TEXT
    )
    added: Mapping[str, NDArray[Any]] = added_columns()

    def frames(self, row: int) -> list[int]:
        """Return the string ids of a stack's frames, the innermost first."""
        return [int(self.frame[stack_row]) for stack_row in self.rows(row)]

    def rows(self, row: int) -> list[int]:
        """Return the rows of a stack's frames, the innermost first."""
        rows = []
        while row:
            rows.append(row)
            row = int(self.parent[row])
        return rows

    def extended(self, parent: NDArray[Any], frame: NDArray[Any]) -> Stacks:
        """Return the table with more rows, whose parents precede them."""
        return Stacks(
            np.concatenate([self.parent, parent.astype(np.uint32)]),
            np.concatenate([self.frame, frame.astype(np.uint32)]),
        )

    def with_callers(self, rows: NDArray[Any]) -> Bool:
        """Return a mask of these rows and all their callers."""
        is_there = np.zeros(len(self), np.bool_)
        while len(rows := rows[~is_there[rows]]):
            is_there[rows] = True
            rows = np.unique(self.parent[rows])
        return is_there

    @classmethod
    def empty(cls) -> Stacks:
        return cls(np.zeros(1, np.uint32), np.zeros(1, np.uint32))


@dataclass(frozen=True, slots=True)
class Memory(Table):
    """Every allocation and release of memory, in the order of time."""

    time_ns: Int64 = column("when it was", np.int64, Role.TIME, unit="ns", ascending=True)
    address: Int64 = column("the 64 bits of the pointer", np.int64)
    size: Int64 = column("negative when it is given back", np.int64, unit="bytes")
    device: UInt32 = column("`cpu`, `cuda:0`", np.uint32, Role.TEXT)
    track: UInt32 = column("the thread that asked", np.uint32, Role.TRACK)
    slice: Int32 = column(
        "the innermost slice then running on that thread", np.int32, Role.SLICE, absent=NO_SLICE,
        derived=True,
    )  # fmt: skip
    allocated: Int64 = column("in use on the device after it", np.int64, unit="bytes")
    reserved: Int64 = column(
        "held by the allocator after it, 0 when it does not say", np.int64, unit="bytes"
    )
    added: Mapping[str, NDArray[Any]] = added_columns()


@dataclass(frozen=True, slots=True)
class Owners(Table):
    """What the program said of memory blocks: this one held a parameter at that time."""

    time_ns: Int64 = column("when it was said", np.int64, Role.TIME, unit="ns")
    address: Int64 = column("of the block", np.int64)
    size: Int64 = column("of the block", np.int64, unit="bytes")
    device: UInt32 = column("`cpu`, `cuda:0`", np.uint32, Role.TEXT)
    owner: UInt8 = column("what the block held: `MemoryOwner`", np.uint8)
    added: Mapping[str, NDArray[Any]] = added_columns()


@dataclass(frozen=True, slots=True)
class Samples(Table):
    """The stacks of Python threads, sampled every ms or so, in the order of time.

    Each stands for the time until its thread was looked at again. A thread that did not run in
    between is one row, however long that was.
    """

    time_ns: Int64 = column("when it was taken", np.int64, Role.TIME, unit="ns", ascending=True)
    duration_ns: Int64 = column("how much time it stands for", np.int64, unit="ns", least=0)
    track: UInt32 = column("the thread", np.uint32, Role.TRACK)
    stack: UInt32 = column(
        "the Python frames; a function written in C that runs is the innermost one", np.uint32,
        Role.STACK, absent=NO_STACK,
    )  # fmt: skip
    state: UInt8 = column("what the thread was doing", np.uint8, words=ThreadState)
    wait: UInt8 = column("what a blocked thread waited for", np.uint8, words=WaitReason)
    slice: Int32 = column(
        "the innermost slice then running on that thread", np.int32, Role.SLICE, absent=NO_SLICE,
        derived=True,
    )  # fmt: skip
    added: Mapping[str, NDArray[Any]] = added_columns()

    @property
    def end_ns(self) -> Int64:
        """Return the end of the time that each sample stands for."""
        return self.time_ns + self.duration_ns


@dataclass(frozen=True, slots=True)
class Held(Table):
    """Memory that the program kept for some time, as sampled blocks in the order of time.

    Blocks are drawn by their size, at most 500 in a second of each kind: of tensors, of arrays,
    of Python's objects. A block released within 0.25 s is left out.
    """

    time_ns: Int64 = column("when it was allocated", np.int64, Role.TIME, unit="ns", ascending=True)
    duration_ns: Int64 = column("how long it was held, or recorded", np.int64, unit="ns", least=0)
    size: Int64 = column("how many bytes it stands for", np.int64, unit="bytes")
    device: UInt32 = column("`cpu`, `cuda:0`", np.uint32, Role.TEXT)
    track: UInt32 = column("the thread that asked", np.uint32, Role.TRACK)
    stack: UInt32 = column("the Python frames that asked", np.uint32, Role.STACK, absent=NO_STACK)
    is_held: UInt8 = column("1: it still was when the recording stopped", np.uint8)
    slice: Int32 = column(
        "the innermost slice then running on that thread", np.int32, Role.SLICE, absent=NO_SLICE,
        derived=True,
    )  # fmt: skip
    added: Mapping[str, NDArray[Any]] = added_columns()


@dataclass(frozen=True, slots=True)
class Uses(Table):
    """What operators did with the data of tensors, in the order of time.

    Recorded with `--needless`. Views are left out: they neither read nor make data.
    """

    time_ns: Int64 = column(
        "when the operator started", np.int64, Role.TIME, unit="ns", ascending=True
    )
    track: UInt32 = column("the thread it ran on", np.uint32, Role.TRACK)
    role: UInt8 = column("what it did", np.uint8, words=UseRole)
    position: UInt32 = column("among the operator's inputs or results", np.uint32)
    value: Int64 = column("equal for data that was computed in the same way", np.int64)
    storage: Int64 = column("counts storages, each of which is released at most once", np.int64)
    size: Int64 = column(
        "how much of the storage the tensor refers to", np.int64, unit="bytes", least=0
    )
    slice: Int32 = column("the operator", np.int32, Role.SLICE, absent=NO_SLICE, derived=True)
    added: Mapping[str, NDArray[Any]] = added_columns()


@dataclass(frozen=True, slots=True)
class Track:
    """One line of the timeline: a thread of a process, or a stream of a device."""

    pid: str  # as the tool wrote it: mostly numbers, words in some foreign traces
    tid: str
    process_name: str = ""
    thread_name: str = ""
    process_label: str = ""
    process_sort: int | None = None
    thread_sort: int | None = None
    logical_id: int = NO_THREAD  # the framework's own small number for the thread


@dataclass(frozen=True, slots=True)
class Losses:
    """Events that were dropped, and why."""

    events: int = 0
    policy: str = ""  # which were dropped: "newest", "oldest", or all that fell off a "ring"
    limit_bytes: int = 0

    @classmethod
    def at_limit(cls, events: int, limit_bytes: int, *, keep_newest: bool, is_ring: bool) -> Losses:
        """Return the losses at a memory limit; none without events."""
        policy = "ring" if is_ring else "oldest" if keep_newest else "newest"
        return cls(events, policy, limit_bytes) if events else cls()

    @property
    def fell_off(self) -> bool:
        """Tell whether the events fell off a ring, which keeps only the latest."""
        return self.policy == "ring"


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
    sources: Mapping[str, str] = field(default_factory=dict)  # each source's description of itself
    losses: Losses = field(default_factory=Losses)
    overhead_ns: float = 0.0  # calibrated cost of recording one event
    devices: Sequence[Mapping[str, Any]] = ()  # under Kineto's names; see Trace.devices()
    code_folders: Sequence[str] = ()  # folders that the files in frames were imported from
    # Numbers of cores, threads and workers: see docs/trace.md.
    parallelism: Mapping[str, float] = field(default_factory=dict)
    libraries: Sequence[str] = ()  # installed top-level modules, which are not the program's own
    # The program's git commit, branch, and whether files differ from the commit.
    revision: Mapping[str, str] = field(default_factory=dict)
    anomalies: Mapping[str, int] = field(default_factory=dict)  # oddities in the file, with counts
    user: Mapping[str, Any] = field(default_factory=dict)  # the user's, or a foreign file's


@dataclass(frozen=True, slots=True)
class Captured:
    """The tables of a trace.

    As filled by the recorder, a source or a reader, rows are in any order and derived columns are
    absent; ``build`` makes a Trace from that.
    """

    slices: Slices
    tracks: tuple[Track, ...]
    strings: Strings
    stacks: Stacks = field(default_factory=Stacks.empty)
    memory: Memory = field(default_factory=Memory.empty)
    owners: Owners = field(default_factory=Owners.empty)
    marks: Marks = field(default_factory=Marks.empty)
    samples: Samples = field(default_factory=Samples.empty)
    held: Held = field(default_factory=Held.empty)
    uses: Uses = field(default_factory=Uses.empty)

    def tables(self) -> dict[str, Any]:
        return {name: getattr(self, name) for name in TABLES}


TABLES: Mapping[str, type[Table]] = {
    "slices": Slices,
    "marks": Marks,
    "stacks": Stacks,
    "memory": Memory,
    "owners": Owners,
    "samples": Samples,
    "held": Held,
    "uses": Uses,
}

# Few allocators report it, so the column is optional.
add_column(
    Memory,
    "stack",
    Column(
        "the frames that asked for it, where the allocator itself reports them; else see its slice",
        np.uint32,
        Role.STACK,
        absent=NO_STACK,
    ),
)


def markdown() -> str:
    return "\n".join(_described(name, table) for name, table in TABLES.items())


def _described(name: str, table: type[Table]) -> str:
    meaning = " ".join((table.__doc__ or "").split())
    rows = [
        f"## {name}",
        "",
        meaning,
        "",
        "| column | type | unit | meaning |",
        "|---|---|---|---|",
    ]
    for column_name, spec in table.columns().items():
        if spec.transient:
            continue
        kind = "key-value pairs" if spec.dtype is None else spec.dtype.__name__
        if spec.role not in {Role.VALUE, Role.TIME}:
            kind += f", {spec.role.value}"
        notes = [spec.meaning]
        if spec.words is not None:
            notes.append(", ".join(f"`{word.name.lower()}`" for word in spec.words))
        if spec.may_be_absent:
            notes.append(f"{spec.absent} if none")
        if spec.derived:
            notes.append("derived when the trace is built")
        rows.append(f"| `{column_name}` | {kind} | {spec.unit} | {'; '.join(notes)} |")
    return "\n".join([*rows, ""])
