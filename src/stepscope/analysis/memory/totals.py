"""How much memory of a device was in use at each moment: the one definition, for every screen.

Where the allocator writes its total beside its events, as torch's do for devices, that total
counts: it has what was there before the recording, and what no event tells of. Else, and for
an allocator of host memory that counts from the start of the recording only, the blocks that
are known to live are summed up. What the allocator counts beyond the known blocks is memory of
which nothing else is known: blocks without an address, so that all sums agree.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from stepscope.analysis.memory.blocks import ALWAYS, NEVER, NO_ROW, Blocks
from stepscope.analysis.memory.usage import CPU, rows_of_device
from stepscope.trace.model import Int64, Trace


@dataclass(frozen=True, slots=True)
class Totals:
    """The bytes in use after each change; the first row is what there was before all of them."""

    time_ns: Int64  # ascending
    bytes: Int64
    by_allocator: bool  # whether the allocator said so; else the sum of the blocks that are known

    @property
    def peak_row(self) -> int:
        """Return the row at which most was in use."""
        return int(np.argmax(self.bytes)) if len(self.bytes) else 0


def totals_of(trace: Trace, device: str, blocks: Blocks) -> Totals:
    """Return the totals of a device, of which the blocks are known."""
    known = _summed(trace, blocks)
    told = _told(trace, device)
    if told is None:
        return known
    at = np.searchsorted(known.time_ns, told.time_ns, side="right") - 1
    last = np.append(told.time_ns[1:] != told.time_ns[:-1], True)  # of those at one moment
    is_more = known.bytes[np.maximum(at, 0)] > told.bytes
    if device.partition(":")[0] == CPU and (is_more & last & (at >= 0))[1:].any():
        return known
    return told


def beside(totals: Totals, blocks: Blocks) -> Blocks:
    """Return what is in use beyond the blocks, as blocks of which only size and time are known."""
    if not totals.by_allocator:
        return _unknown(*np.zeros((3, 0), np.int64))
    changes, sums = _levels(blocks)
    last = np.append(totals.time_ns[1:] != totals.time_ns[:-1], True)
    time_ns = totals.time_ns[last]
    time_ns[0] = ALWAYS
    known = np.append(0, sums)[np.searchsorted(changes, time_ns, side="right")]
    more = np.maximum(totals.bytes[last] - known, 0)
    always = int(more.min())
    starts = np.flatnonzero(np.append(True, more[1:] != more[:-1]))
    ends_ns = np.append(time_ns[starts[1:]], NEVER)
    above = more[starts] - always
    kept = above > 0
    size, start_ns, end_ns = above[kept], time_ns[starts][kept], ends_ns[kept]
    if always:
        size = np.append(size, always)
        start_ns, end_ns = np.append(start_ns, ALWAYS), np.append(end_ns, NEVER)
    return _unknown(size, start_ns, end_ns)


def _unknown(size: Int64, start_ns: Int64, end_ns: Int64) -> Blocks:
    nothing = np.zeros(len(size), np.int64)
    return Blocks(nothing, size, start_ns, end_ns, nothing + NO_ROW)


def _told(trace: Trace, device: str) -> Totals | None:
    """Return the allocator's own totals, None where it does not tell them."""
    memory, rows = trace.memory, rows_of_device(trace, device)
    if not memory.allocated[rows].any():
        return None
    total, time_ns = memory.allocated[rows], memory.time_ns[rows]
    before = max(int(total[0] - memory.size[rows[0]]), 0)
    return Totals(np.append(time_ns[0] - 1, time_ns), np.append(before, total), by_allocator=True)


def _summed(trace: Trace, blocks: Blocks) -> Totals:
    time_ns, sums = _levels(blocks)
    was_there = time_ns == ALWAYS
    before = int(sums[was_there][0]) if was_there.any() else 0
    time_ns, sums = time_ns[~was_there], sums[~was_there]
    before_ns = int(time_ns[0]) - 1 if len(time_ns) else trace.info.start_ns
    return Totals(np.append(before_ns, time_ns), np.append(before, sums), by_allocator=False)


def _levels(blocks: Blocks) -> tuple[Int64, Int64]:
    """Return the times at which blocks came or went, and the bytes that they held after each."""
    freed = blocks.end_ns != NEVER
    times = np.concatenate([blocks.start_ns, blocks.end_ns[freed]])
    change = np.concatenate([blocks.size, -blocks.size[freed]])
    order = np.argsort(times, kind="stable")
    times, sums = times[order], np.cumsum(change[order])
    last = np.append(times[1:] != times[:-1], True)[: len(times)]
    return times[last], sums[last]
