"""What holds the peak of a device's memory, who asked for it, and what would lower it.

``unused`` is what the allocator held at the peak and no tensor used: it is cut into blocks that do
not fit, or was needed earlier. Savings are bytes of the peak, each by itself; two of them may
concern the same memory:

checkpointing
    Activations are kept for the backward pass. With checkpoints around the layers, only what goes
    from one to the next is, and the inside of one layer at a time: all but the largest one's
    inside is saved. Layers are the numbered modules (``blocks.3``); without their names, it is all
    activations at most.
gradients
    Those of the step before, which ``zero_grad(set_to_none=False)`` fills with zeros instead of
    giving them back.
workspace
    What a convolution or a recurrent layer takes for the time of its call.
fragmentation
    What is unused.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np

from stepscope.analysis.base.advice import advise
from stepscope.analysis.base.remedies import Remedy
from stepscope.analysis.base.shared import shared
from stepscope.analysis.base.tree import ids_where, is_named
from stepscope.analysis.memory.blocks import ALWAYS, NO_ROW
from stepscope.analysis.memory.sites import Sites, sites_of
from stepscope.analysis.memory.timeline import (
    Category,
    MemoryTimeline,
    NoMemoryError,
    memory_timeline,
)
from stepscope.analysis.memory.usage import CPU, devices, rows_of_device, with_memory
from stepscope.trace.model import NO_SLICE, Bool, Int64, Trace
from stepscope.trace.names import OPTIMIZER_STEP
from stepscope.units import size_text

MIN_SAVING = 0.02  # what would save less of the peak is not worth a line

MOST_HOLDERS = 12

_WITH_WORKSPACE = re.compile(r"conv|cudnn|miopen|_rnn|lstm|gru", re.IGNORECASE)
_LAYER = re.compile(r"(?:(?!\d+(?:\.|$))[^.]+\.)*\d+(?=\.|$)")  # up to the first number in the name
_FEWEST_LAYERS = 2


@dataclass(frozen=True, slots=True)
class Holder:
    """What allocated some of the memory in use at the peak."""

    module: str
    line: str  # the program's innermost line; "" if not recorded
    operator: str
    category: str
    bytes: int
    blocks: int


@dataclass(frozen=True, slots=True)
class Saving:
    """A way to lower the peak, and by how much."""

    id: str
    bytes: int
    text: str


@dataclass(frozen=True, slots=True)
class PeakMemory:
    """The peak of a device's memory, and what it consists of."""

    device: str
    bytes: int
    time_ns: int
    reserved: int  # what the allocator held at that moment; 0 if unknown
    most_reserved: int  # the maximum that it held
    categories: tuple[tuple[str, int], ...]  # by bytes; they add up to the peak
    holders: tuple[Holder, ...]  # the largest ones
    savings: tuple[Saving, ...]  # the largest first
    unknown: tuple[str, ...]  # what is unknown

    @property
    def unused(self) -> int:
        """Return what the allocator held at the peak beyond the memory in use."""
        return max(self.reserved - self.bytes, 0) if self.reserved else 0

    def to_json(self) -> dict[str, Any]:
        return {
            "device": self.device,
            "peak_bytes": self.bytes,
            "reserved_bytes": self.reserved,
            "most_reserved_bytes": self.most_reserved,
            "unused_bytes": self.unused,
            "categories": dict(self.categories),
            "savings": [
                {"id": saving.id, "bytes": saving.bytes, "text": saving.text}
                for saving in self.savings
            ],
            "unknown": list(self.unknown),
        }


@shared
def peak_memory(trace: Trace, device: str | None = None) -> PeakMemory | None:
    """Return what holds the peak of a device's memory, None if unknown."""
    try:
        timeline = memory_timeline(with_memory(trace), device)
    except NoMemoryError:
        return None
    return _of_timeline(timeline)


def peaks_of_memory(trace: Trace) -> Iterator[PeakMemory]:
    """Yield the peak of every device whose memory was recorded."""
    trace = with_memory(trace)
    for device in devices(trace):
        peak = peak_memory(trace, device)
        if peak is not None:
            yield peak


def _of_timeline(timeline: MemoryTimeline) -> PeakMemory:
    peak, blocks = timeline.peak(), timeline.blocks
    live = np.flatnonzero((blocks.start_ns <= peak.time_ns) & (peak.time_ns < blocks.end_ns))
    sites = sites_of(timeline.trace, timeline.slice[live], timeline.stack[live])
    sums = np.zeros(len(Category), np.int64)
    np.add.at(sums, timeline.category[live], blocks.size[live])
    by_bytes = sorted(((int(sums[category]), category) for category in Category), reverse=True)
    reserved, most = _reserved(timeline, peak.time_ns)
    if most < peak.bytes:  # it does not count all allocations, as Paddle's for the CPU
        reserved = most = 0
    memory_peak = PeakMemory(
        device=timeline.device,
        bytes=peak.bytes,
        time_ns=peak.time_ns,
        reserved=reserved,
        most_reserved=most,
        categories=tuple((_words(category), size) for size, category in by_bytes if size),
        holders=tuple(_holders(timeline, live, sites)),
        savings=(),
        unknown=tuple(_unknown(timeline, live)),
    )
    savings = [
        category
        for category in _savings(timeline, live, sites, memory_peak)
        if _matters(category, memory_peak)
    ]
    savings.sort(key=lambda category: -category.bytes)
    return replace(memory_peak, savings=tuple(savings))


def _matters(saving: Saving, peak: PeakMemory) -> bool:
    return saving.bytes > 0 and saving.bytes >= MIN_SAVING * peak.bytes


def _words(category: Category) -> str:
    return category.name.lower().replace("_", " ")


def _reserved(timeline: MemoryTimeline, time_ns: int) -> tuple[int, int]:
    """Return what the allocator held at a moment, and its maximum."""
    memory, rows = timeline.trace.memory, rows_of_device(timeline.trace, timeline.device)
    at = max(int(np.searchsorted(memory.time_ns[rows], time_ns, side="right")) - 1, 0)
    reserved = np.maximum(memory.reserved[rows], 0)
    return int(reserved[at]), int(reserved.max())


def _holders(timeline: MemoryTimeline, live: Int64, sites: Sites) -> Iterator[Holder]:
    """Yield the places that allocated most of what lives."""
    strings, size = timeline.trace.strings, timeline.blocks.size[live]
    key = sites.of_slice * len(Category) + timeline.category[live]
    keys, which = np.unique(key, return_inverse=True)
    sums = np.zeros(len(keys), np.int64)
    np.add.at(sums, which, size)
    count = np.bincount(which, minlength=len(keys))
    for place in np.argsort(-sums, kind="stable")[:MOST_HOLDERS].tolist():
        site, category = divmod(int(keys[place]), len(Category))
        yield Holder(
            module=strings[int(sites.module[site])],
            line=strings[int(sites.line[site])],
            operator=strings[int(sites.operator[site])],
            category=_words(Category(category)),
            bytes=int(sums[place]),
            blocks=int(count[place]),
        )


def _savings(
    timeline: MemoryTimeline, live: Int64, sites: Sites, peak: PeakMemory
) -> Iterator[Saving]:
    size = timeline.blocks.size[live]
    how = partial(advise, timeline.trace)
    total, whose = _checkpointing(timeline, live, sites)
    yield Saving("checkpointing", total, f"{whose}: {how(Remedy.CHECKPOINTS)}")
    stale = int(size[_of_the_step_before(timeline, live, peak.time_ns)].sum())
    yield Saving("gradients", stale, f"Gradients of the step before: {how(Remedy.FREED_GRADIENTS)}")
    if not timeline.device.startswith(CPU):  # neither can be changed there
        scratch = int(size[_is_workspace(timeline, live)].sum())
        text = "Workspace of convolutions or recurrent layers, held only during a call"
        yield Saving("workspace", scratch, f"{text}: {how(Remedy.SMALLER_WORKSPACE)}")
        text = "Held by the allocator at the peak, and used by no tensor"
        words = how(Remedy.LESS_UNUSED)
        if timeline.device.startswith("hip"):
            words = words.replace("PYTORCH_CUDA_", "PYTORCH_HIP_")
        yield Saving("fragmentation", peak.unused, f"{text}: {words}")


def _checkpointing(timeline: MemoryTimeline, live: Int64, sites: Sites) -> tuple[int, str]:
    """Return how many bytes checkpoints would save, and of which activations."""
    activations = np.flatnonzero(timeline.category[live] == Category.ACTIVATION)
    activations = activations[
        np.argsort(timeline.blocks.start_ns[live][activations], kind="stable")
    ]
    size = timeline.blocks.size[live][activations]
    names = [timeline.trace.strings[int(i)] for i in sites.module[sites.of_slice[activations]]]
    layers: dict[str, list[int]] = {}
    for name, size_bytes in zip(names, size.tolist(), strict=True):
        layer = _LAYER.match(name)
        if layer is not None:
            layers.setdefault(layer[0], []).append(size_bytes)
    if len(layers) < _FEWEST_LAYERS:
        return int(size.sum()), "Activations kept for the backward pass, at most"
    inside = [sum(blocks[:-1]) for blocks in layers.values()]  # the last is the next one's input
    return sum(inside) - max(inside), f"Activations inside {len(layers)} layers, all but one"


def _of_the_step_before(timeline: MemoryTimeline, live: Int64, time_ns: int) -> Bool:
    """Return a mask of gradients that an optimizer has used already."""
    slices = timeline.trace.slices
    is_step = is_named(timeline.trace, lambda name: name.startswith(OPTIMIZER_STEP))
    ends = slices.ends_of(is_step)
    ends = ends[ends <= time_ns]
    if not len(ends):
        return np.zeros(len(live), np.bool_)
    is_gradient = timeline.category[live] == Category.GRADIENT
    stale: Bool = is_gradient & (timeline.blocks.start_ns[live] < ends.max())
    return stale


def _is_workspace(timeline: MemoryTimeline, live: Int64) -> Bool:
    """Return a mask of blocks that live only during an operator that takes a workspace."""
    slices, strings = timeline.trace.slices, timeline.trace.strings
    where = timeline.slice[live].astype(np.int64)
    ends = timeline.blocks.end_ns[live]
    is_workspace = np.zeros(len(live), np.bool_)
    climbing = np.flatnonzero(where != NO_SLICE)
    named = ids_where(slices.name, strings, _WITH_WORKSPACE.search)
    takes = np.isin(slices.name, named)
    while len(climbing := climbing[where[climbing] != NO_SLICE]):
        row = where[climbing]
        is_workspace[climbing] |= takes[row] & (ends[climbing] <= slices.ends_of(row))
        where[climbing] = slices.parent[row]
    return is_workspace


def _unknown(timeline: MemoryTimeline, live: Int64) -> Iterator[str]:
    """Yield what a trace does not say about the memory at the peak."""
    blocks = timeline.blocks
    size = blocks.size[live]
    before = int(size[(blocks.created[live] == NO_ROW) & (blocks.start_ns[live] == ALWAYS)].sum())
    if before:
        yield (
            f"{size_text(before)} of the peak was allocated before the recording began: "
            "by whom is not known."
        )
    later = int(size[(blocks.created[live] == NO_ROW) & (blocks.start_ns[live] != ALWAYS)].sum())
    if later:
        yield f"{size_text(later)} is in the allocator's total, but in no recorded event."
    if timeline.by_size:
        yield (
            "The trace has no addresses: which block a release frees is a guess (the last one of "
            "its size). Totals are not affected."
        )
    if not timeline.totals.by_allocator and (blocks.created == NO_ROW).any():
        yield (
            "The allocator does not report its total: memory that appears in no event is not "
            "counted."
        )
