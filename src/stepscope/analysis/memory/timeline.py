"""How much memory of a device was in use, and for what, at every moment.

The categories are torch's. What a block holds is taken from, in this order:

1. The program's own statements (``Trace.owners``): parameter, optimizer state, gradient, input.
2. Where it was allocated, and what it outlived:

   - in a backward function: **gradient** if it lives on when an optimizer's step starts,
     else **autograd detail**;
   - in an optimizer's step: **optimizer state** if it outlives the step, else **temporary**;
   - elsewhere: **activation** if it lives on when a backward function starts for the thread that
     allocated it, else **temporary**.

3. Nothing: a block that was there before the recording, of which only the release was seen, is
   **unknown**.

A block keeps its category for life, so torch's action INCREMENT_VERSION never occurs here.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum
from typing import TYPE_CHECKING

import numpy as np

from stepscope.analysis.base.shared import shared
from stepscope.analysis.base.sums import around
from stepscope.analysis.base.tree import ids_where
from stepscope.analysis.memory.blocks import (
    ALWAYS,
    NEVER,
    NO_ROW,
    Blocks,
    Totals,
    beside,
    blocks_of_device,
    joined_blocks,
    lowest_stated_ranks,
    totals_of,
)
from stepscope.analysis.memory.usage import (
    Peak,
    default_device,
    devices,
    with_memory,
)
from stepscope.errors import StepscopeError
from stepscope.trace.model import (
    NO_SLICE,
    NO_STACK,
    Bool,
    Int32,
    Int64,
    MemoryOwner,
    SliceFlags,
    Trace,
    UInt8,
    UInt32,
)
from stepscope.trace.names import ENGINE_CALL, OPTIMIZER_STEP

if TYPE_CHECKING:
    import polars


class Category(IntEnum):
    """What memory is for, numbered as in torch's memory timelines."""

    PARAMETER = 0
    OPTIMIZER_STATE = 1
    INPUT = 2
    TEMPORARY = 3
    ACTIVATION = 4
    GRADIENT = 5
    AUTOGRAD_DETAIL = 6
    UNKNOWN = 7


class Action(IntEnum):
    """What happens to a block, numbered as in torch's memory timelines."""

    PREEXISTING = 1
    CREATE = 2
    INCREMENT_VERSION = 3
    DESTROY = 4


# If several categories were stated for a block, the first of these wins.
_OWNERS = (
    (MemoryOwner.PARAMETER, Category.PARAMETER),
    (MemoryOwner.OPTIMIZER_STATE, Category.OPTIMIZER_STATE),
    (MemoryOwner.GRADIENT, Category.GRADIENT),
    (MemoryOwner.INPUT, Category.INPUT),
)


class NoMemoryError(StepscopeError, ValueError):
    """The trace has no events for the requested memory."""


@dataclass(frozen=True, slots=True)
class MemoryEvents:
    """What happened to the blocks of one device, in order of time."""

    time_ns: Int64  # ALWAYS if allocated before the recording
    action: UInt8  # Action
    bytes: Int64  # negative for releases
    category: UInt8  # Category


@dataclass(frozen=True, slots=True)
class MemoryTimeline:
    """The memory of one device: blocks, their categories, and the sums over time."""

    device: str
    start_ns: int  # the first event
    end_ns: int  # the end of the recording, or the last event
    blocks: Blocks
    category: UInt8  # Category of each block
    slice: Int32  # the slice in which each block was allocated, NO_SLICE if unknown
    trace: Trace
    totals: Totals
    stack: UInt32  # the stack that the allocator stated for each block, NO_STACK if none
    by_size: bool  # without addresses, which block of one size ended is a guess

    def events(self) -> MemoryEvents:
        blocks = self.blocks
        freed = np.flatnonzero(blocks.end_ns != NEVER)
        was_there = blocks.start_ns == ALWAYS
        time_ns = np.concatenate([blocks.start_ns, blocks.end_ns[freed]])
        begins = np.where(was_there, Action.PREEXISTING, Action.CREATE)
        ends = np.full(len(freed), Action.DESTROY)
        action = np.concatenate([begins, ends]).astype(np.uint8)
        size = np.concatenate([blocks.size, -blocks.size[freed]])
        category = np.concatenate([self.category, self.category[freed]])
        order = np.lexsort((action, time_ns))
        return MemoryEvents(time_ns[order], action[order], size[order], category[order])

    def levels(self, tick_ns: int = 1, offset_ns: int = 0) -> tuple[Int64, Int64]:
        """Return times, and the bytes in use after each, a column per category.

        Times, with the offset added, are cut to whole ticks. Each appears once, but the first may
        appear twice: what was there before the recording has a row of its own.
        """
        events = self.events()
        was_there = events.time_ns == ALWAYS
        tick = (np.where(was_there, self.start_ns, events.time_ns) + offset_ns) // tick_ns
        is_new = np.ones(len(tick), bool)
        is_new[1:] = (tick[1:] != tick[:-1]) | (was_there[1:] != was_there[:-1])
        change = np.zeros((np.count_nonzero(is_new), len(Category)), np.int64)
        np.add.at(change, (np.cumsum(is_new) - 1, events.category), events.bytes)
        return tick[is_new], np.cumsum(change, axis=0)

    def peak(self) -> Peak:
        """Return when most memory was in use, and where its last block was allocated.

        This is what is meant by peak wherever one is shown.
        """
        at = self.totals.peak_row
        time_ns = int(self.totals.time_ns[at])
        last = np.flatnonzero(self.blocks.start_ns == time_ns)
        where = int(self.slice[last[-1]]) if at and len(last) else NO_SLICE
        return Peak(self.device, int(self.totals.bytes[at]), time_ns, where)

    def to_polars(self) -> polars.DataFrame:
        """Return the bytes in use by category and in total, a row for every change."""
        import polars as pl

        times, sizes = self.levels()
        columns = {c.name.lower(): sizes[:, c] for c in Category}
        return pl.DataFrame({"time_ns": times, **columns, "total": sizes.sum(axis=1)})

    def blocks_to_polars(self) -> polars.DataFrame:
        """Return every block: address, size, category, lifetime, and what allocated it."""
        import polars as pl

        blocks, trace = self.blocks, self.trace
        words = pl.Series([c.name.lower() for c in Category])
        names = np.append(trace.slices.name, np.uint32(0))  # NO_SLICE picks the empty name
        return pl.DataFrame(
            {
                "address": np.maximum(blocks.address, 0),  # 0 if unknown
                "bytes": blocks.size,
                "category": words.gather(self.category.astype(np.uint32)),
                "start_ns": _null_where(blocks.start_ns, blocks.start_ns == ALWAYS),
                "end_ns": _null_where(blocks.end_ns, blocks.end_ns == NEVER),
                "allocated_in": [trace.strings[int(i)] for i in names[self.slice]],
            }
        )


@shared
def memory_timeline(trace: Trace, device: str | None = None) -> MemoryTimeline:
    """Return the timeline of a device's memory, by default the GPU's if there is one."""
    trace = with_memory(trace)
    device = device or default_device(trace)
    blocks, statements = blocks_of_device(trace, device)
    if not len(trace.memory):
        raise NoMemoryError("the trace has no memory events; record with profile_memory=True")
    if not len(blocks):
        device_names = ", ".join(devices(trace))
        raise NoMemoryError(f"the trace has no memory of device {device!r}, only of {device_names}")
    totals = totals_of(trace, device, blocks)
    blocks = joined_blocks([blocks, beside(totals, blocks)])
    rank_of = np.full(256, 255, np.uint8)
    for rank, (owner, _) in enumerate(_OWNERS):
        rank_of[owner] = rank
    stated = lowest_stated_ranks(blocks, statements, rank_of[statements.owner])
    where = np.append(trace.memory.slice, np.int32(NO_SLICE))[blocks.created]
    stack = np.append(trace.memory.stack, np.uint32(NO_STACK))[blocks.created]
    category = _by_life(trace, blocks, where)
    for rank, (_, owner_category) in enumerate(_OWNERS):
        category[stated == rank] = owner_category
    start_ns, end_ns = _span(trace, blocks)
    by_size = bool((blocks.address < 0).any())
    return MemoryTimeline(
        device, start_ns, end_ns, blocks, category, where, trace, totals, stack, by_size
    )


def memory_peak(trace: Trace, device: str | None = None) -> Peak | None:
    """Return when most memory of a device was in use; None if unknown."""
    try:
        return memory_timeline(with_memory(trace), device).peak()
    except NoMemoryError:
        return None


def _span(trace: Trace, blocks: Blocks) -> tuple[int, int]:
    """Return the time of the first event, and the end of the recording."""
    times = np.concatenate([blocks.start_ns, blocks.end_ns])
    times = times[(times != ALWAYS) & (times != NEVER)]
    if not len(times):
        return trace.info.start_ns, trace.info.end_ns
    return int(times.min()), max(int(times.max()), trace.info.end_ns)


def _by_life(trace: Trace, blocks: Blocks, where: Int32) -> UInt8:
    """Categorise blocks by where they were allocated and what they outlived."""
    slices = trace.slices
    if not len(slices):  # a history of the allocator alone
        return np.full(len(blocks), Category.UNKNOWN, np.uint8)
    is_backward = _backward_functions(trace)
    is_step = np.isin(
        slices.name,
        ids_where(slices.name, trace.strings, lambda name: name.startswith(OPTIMIZER_STEP)),
    )
    step = around(slices.parent, where, is_step, itself=True)
    in_backward = around(slices.parent, where, is_backward, itself=True) != NO_SLICE
    in_step = step != NO_SLICE
    outlives_step = in_step & (blocks.end_ns > np.append(slices.end_ns, NEVER)[step])
    meets_step = _meets(blocks, slices.start_ns[is_step])

    category = np.full(len(blocks), Category.TEMPORARY, np.uint8)
    category[_meets_its_backward(trace, blocks, is_backward)] = Category.ACTIVATION
    category[in_step] = Category.TEMPORARY
    category[outlives_step] = Category.OPTIMIZER_STATE
    category[in_backward] = Category.AUTOGRAD_DETAIL
    category[in_backward & meets_step] = Category.GRADIENT
    category[blocks.created == NO_ROW] = Category.UNKNOWN
    return category


def _backward_functions(trace: Trace) -> Bool:
    slices = trace.slices
    flagged: Bool = slices.flags & SliceFlags.BACKWARD != 0
    if flagged.any():
        return flagged
    names = ids_where(slices.name, trace.strings, lambda name: name.startswith(ENGINE_CALL))
    return np.isin(slices.name, names)


def _meets(blocks: Blocks, starts_ns: Int64) -> Bool:
    """Return a mask of blocks that lived at one of the ascending times after their start."""
    starts: Int64 = np.append(starts_ns, NEVER)
    following = starts[np.searchsorted(starts_ns, blocks.start_ns, side="right")]
    met: Bool = following < blocks.end_ns
    return met


def _meets_its_backward(trace: Trace, blocks: Blocks, is_backward: Bool) -> Bool:
    """Return a mask of blocks alive when a backward function of their thread's forward starts.

    Foreign traces name the forward thread by a number that no track has: there, any will do.
    """
    slices = trace.slices
    rows = np.flatnonzero(is_backward)
    logical = np.array([track.logical_id for track in trace.tracks], np.int64)
    if not np.isin(slices.forward_thread[rows], logical[logical > 0]).any():
        return _meets(blocks, slices.start_ns[rows])
    met = np.zeros(len(blocks), bool)
    track = trace.memory.track[blocks.created]
    for place in np.unique(track[blocks.created != NO_ROW]):
        its = rows[slices.forward_thread[rows] == logical[place]]
        met |= (track == place) & _meets(blocks, slices.start_ns[its])
    return met


def _null_where(column: Int64, missing: Bool) -> polars.Series:
    import polars as pl

    return pl.select(pl.when(pl.Series(~missing)).then(pl.Series(column))).to_series()
