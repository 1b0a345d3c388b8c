"""Memory blocks and their lifetimes, from the allocator's events, and how much was in use when.

This is the one definition of memory in use, for every screen. Where the allocator writes its total
beside its events, as torch's do for devices, that total counts: it has what was there before the
recording, and what no event tells of. Else, and for an allocator of host memory that counts from
the start of the recording only, the blocks that are known to live are summed up. What the allocator
counts beyond the known blocks becomes blocks without an address, so that all sums agree.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields

import numpy as np

from stepscope.analysis.base.sums import distinct_pairs
from stepscope.analysis.base.table import Table
from stepscope.analysis.memory.usage import CPU, rows_of_device
from stepscope.trace.model import Int64, Owners, Trace, UInt8

ALWAYS = int(np.iinfo(np.int64).min)  # the start of a block that was there before the recording
NEVER = int(np.iinfo(np.int64).max)  # the end of a block that was there after it
NO_ROW = -1
NO_BLOCK = -1


@dataclass(frozen=True, slots=True)
class Blocks(Table):
    """One row per block of memory, ordered by address, then by time."""

    address: Int64  # 0 or less if unknown
    size: Int64  # bytes
    start_ns: Int64  # ALWAYS if allocated before the recording
    end_ns: Int64  # NEVER if freed after the recording
    created: Int64  # row of Memory, NO_ROW if its allocation was not recorded


def blocks_of_device(trace: Trace, device: str) -> tuple[Blocks, Owners]:
    """Return the blocks of a device, and the program's statements about its memory.

    A block that appears in a statement, but whose allocation and release both lie outside the
    recording, is a block that was always there.
    """
    seen = _seen(trace, device)
    statements = _statements(trace, device)
    return joined_blocks([seen, _only_stated(seen, statements)]), statements


def block_at(blocks: Blocks, address: Int64, time_ns: Int64) -> Int64:
    """Return the block that lived at each address at that time, NO_BLOCK if none."""
    count = len(blocks)
    addresses = np.concatenate([blocks.address, address])
    times = np.concatenate([blocks.start_ns, time_ns])
    is_question = np.arange(len(addresses)) >= count
    order = np.lexsort((is_question, times, addresses))
    # Blocks have this order, too, so the last one before a query is the highest so far.
    last = np.maximum.accumulate(np.where(order < count, order, NO_BLOCK))
    questions = order >= count
    block = np.full(len(address), NO_BLOCK, np.int64)
    block[order[questions] - count] = last[questions]
    if count:
        lives = (blocks.address[block] == address) & (time_ns <= blocks.end_ns[block])
        block[~lives] = NO_BLOCK
    return block


def _seen(trace: Trace, device: str) -> Blocks:
    """Pair every allocation with the next event at its address.

    An allocation that follows another at its address ends it: its release went unseen. A release
    that follows another ends a block that may have lived since that one.
    """
    memory = trace.memory
    rows = rows_of_device(trace, device)
    rows = rows[memory.size[rows] != 0]
    places = _places(memory.address[rows], memory.size[rows])
    order = np.argsort(places, kind="stable")
    rows, address = rows[order], places[order]
    size, time_ns = memory.size[rows], memory.time_ns[rows]
    goes_on = np.zeros(len(rows), bool)  # the next event is at the same address
    goes_on[:-1] = address[1:] == address[:-1]
    follows = np.zeros(len(rows), bool)
    follows[1:] = goes_on[:-1]
    is_free = size < 0
    after_allocation = follows & ~np.roll(is_free, 1)
    begins = ~is_free | ~after_allocation
    start_ns = np.where(is_free, np.where(follows, np.roll(time_ns, 1), ALWAYS), time_ns)
    end_ns = np.where(is_free, time_ns, np.where(goes_on, np.roll(time_ns, -1), NEVER))
    created = np.where(is_free, NO_ROW, rows)
    return Blocks(address, np.abs(size), start_ns, end_ns, created).take(begins)


def _places(address: Int64, size: Int64) -> Int64:
    """Return the addresses; made-up ones below 0 if the trace has none.

    Without them, a release ends the last living block of its size: the allocation that brought
    that size to the depth from which the release takes it back has the same place.
    """
    missing = np.flatnonzero(address == 0)
    if not len(missing):
        return address
    _, which = np.unique(np.abs(size[missing]), return_inverse=True)
    order = np.argsort(which, kind="stable")
    which, sign = which[order], np.sign(size[missing])[order]
    running = np.cumsum(sign)
    first = np.searchsorted(which, which)  # of the events of one size
    running -= (running - sign)[first]
    depth = np.where(sign > 0, running, running + 1)
    _, place = distinct_pairs(which, depth - depth.min())
    made_up = address.copy()
    made_up[missing[order]] = -1 - place
    return made_up


def _statements(trace: Trace, device: str) -> Owners:
    owners = trace.owners
    name = trace.strings.ids_of([device]).get(device, -1)
    return owners.take(owners.device == name)


def _only_stated(seen: Blocks, statements: Owners) -> Blocks:
    """Return blocks that are known only from the program's statements."""
    unmet = np.flatnonzero(
        (block_at(seen, statements.address, statements.time_ns) == NO_BLOCK) & (statements.size > 0)
    )
    address, first = np.unique(statements.address[unmet], return_index=True)
    size, time_ns = statements.size[unmet][first], statements.time_ns[unmet][first]
    at = np.searchsorted(seen.address, address)
    reused = at < len(seen)
    reused[reused] = seen.address[at[reused]] == address[reused]
    next_ns = np.full(len(address), NEVER)
    next_ns[reused] = seen.start_ns[at[reused]]
    there = time_ns < next_ns  # later ones lie between two blocks: a statement that came too late
    rows = np.full(len(address), NO_ROW, np.int64)
    return Blocks(address, size, np.full(len(address), ALWAYS), next_ns, rows).take(there)


def joined_blocks(parts: Sequence[Blocks]) -> Blocks:
    """Return the blocks of all parts in order."""
    columns = {
        f.name: np.concatenate([getattr(part, f.name) for part in parts]) for f in fields(Blocks)
    }
    return Blocks(**columns).take(np.lexsort((columns["start_ns"], columns["address"])))


def lowest_stated_ranks(blocks: Blocks, statements: Owners, rank: UInt8) -> UInt8:
    """Return the lowest stated rank of each block, 255 for none; ``rank`` is by statement."""
    lowest = np.full(len(blocks), 255, np.uint8)
    block = block_at(blocks, statements.address, statements.time_ns)
    met = block != NO_BLOCK
    np.minimum.at(lowest, block[met], rank[met])
    return lowest


@dataclass(frozen=True, slots=True)
class Totals:
    """The bytes in use after each change; the first row is the state before all changes."""

    time_ns: Int64  # ascending
    bytes: Int64
    by_allocator: bool  # whether the allocator said so; else the sum of the blocks that are known

    @property
    def peak_row(self) -> int:
        """Return the row with most memory in use."""
        return int(np.argmax(self.bytes)) if len(self.bytes) else 0


def totals_of(trace: Trace, device: str, blocks: Blocks) -> Totals:
    """Return the totals of a device with known blocks."""
    by_blocks = _summed(trace, blocks)
    by_allocator = _allocator_totals(trace, device)
    if by_allocator is None:
        return by_blocks
    at = np.searchsorted(by_blocks.time_ns, by_allocator.time_ns, side="right") - 1
    last = np.append(
        by_allocator.time_ns[1:] != by_allocator.time_ns[:-1], True
    )  # the last of simultaneous ones
    is_more = by_blocks.bytes[np.maximum(at, 0)] > by_allocator.bytes
    if device.partition(":")[0] == CPU and (is_more & last & (at >= 0))[1:].any():
        return by_blocks
    return by_allocator


def beside(totals: Totals, blocks: Blocks) -> Blocks:
    """Return the memory in use beyond the blocks, as blocks with only a size and times."""
    if not totals.by_allocator:
        return _unknown(*np.zeros((3, 0), np.int64))
    changes, sums = _levels(blocks)
    last = np.append(totals.time_ns[1:] != totals.time_ns[:-1], True)
    time_ns = totals.time_ns[last]
    time_ns[0] = ALWAYS
    in_blocks = np.append(0, sums)[np.searchsorted(changes, time_ns, side="right")]
    more = np.maximum(totals.bytes[last] - in_blocks, 0)
    always = int(more.min())
    starts = np.flatnonzero(np.append(True, more[1:] != more[:-1]))
    ends_ns = np.append(time_ns[starts[1:]], NEVER)
    above = more[starts] - always
    is_more = above > 0
    size, start_ns, end_ns = above[is_more], time_ns[starts][is_more], ends_ns[is_more]
    if always:
        size = np.append(size, always)
        start_ns, end_ns = np.append(start_ns, ALWAYS), np.append(end_ns, NEVER)
    return _unknown(size, start_ns, end_ns)


def _unknown(size: Int64, start_ns: Int64, end_ns: Int64) -> Blocks:
    nothing = np.zeros(len(size), np.int64)
    return Blocks(nothing, size, start_ns, end_ns, nothing + NO_ROW)


def _allocator_totals(trace: Trace, device: str) -> Totals | None:
    """Return the allocator's own totals, None if it has none."""
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
    """Return the times at which blocks came or went, and the bytes in use after each."""
    freed = blocks.end_ns != NEVER
    times = np.concatenate([blocks.start_ns, blocks.end_ns[freed]])
    change = np.concatenate([blocks.size, -blocks.size[freed]])
    order = np.argsort(times, kind="stable")
    times, sums = times[order], np.cumsum(change[order])
    last = np.append(times[1:] != times[:-1], True)[: len(times)]
    return times[last], sums[last]
