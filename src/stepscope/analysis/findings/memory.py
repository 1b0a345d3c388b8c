"""Device memory: nearly full, held by the allocator without use, or requested in the loop."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import numpy as np

from stepscope.analysis.base.intervals import union
from stepscope.analysis.base.tree import has_text
from stepscope.analysis.findings.facts import Facts, moments_inside
from stepscope.analysis.findings.launched import device_finding
from stepscope.analysis.findings.model import DETECTORS, Finding, Severity
from stepscope.analysis.findings.spots import hot_spot
from stepscope.analysis.memory.timeline import memory_timeline
from stepscope.analysis.memory.usage import CPU, devices, rows_of_device, with_memory
from stepscope.trace.model import Bool, Int64, SliceKind, Trace
from stepscope.units import count_text, duration_text, size_text

# A caching allocator asks the driver for memory at first, and hardly ever in a step.
MIN_ALLOCATIONS_SHARE = 0.03
MIN_CALLS = 10  # in a run without steps, a few calls may be the first of their kind

DRIVER_ALLOCATION = re.compile(
    r"^(cuda|hip)(Malloc|Free)(?!Async|Host)|^cuMem(Alloc|Free|Create|Map|Unmap|Release|Address)"
)

# The driver, libraries and other programs need memory too: the last tenth is soon gone.
NEAR_LIMIT = 0.90
# If what is in use varies by less of the device's memory, it was taken in advance (as a server of
# language models takes its cache), and nothing will run out.
MIN_VARYING = 0.05
# An allocator always holds a little more than is in use; a third is more than rounding.
MIN_UNUSED = 0.30
MIN_HELD = 0.10  # an allocator that holds less of the device's memory does not matter
# If the allocator holds this share of the device, unused memory may be needed elsewhere.
SCARCE = 0.50


@DETECTORS.register
def memory_near_limit(facts: Facts) -> Finding | None:
    trace = with_memory(facts.trace)
    for device, total in _devices(trace):
        held_bytes, at_ns = _most_held(trace, device)
        if held_bytes < NEAR_LIMIT * total:
            continue
        in_use = memory_timeline(trace, device).totals.bytes
        used, share = int(in_use.max()), held_bytes / total
        if used - int(in_use.min()) < MIN_VARYING * total:
            continue
        return Finding(
            id="memory-near-limit",
            title=f"The memory of {device} is {share:.0%} full",
            text=f"The allocator held up to {size_text(held_bytes)} of the device's "
            f"{size_text(total)}; tensors used up to {size_text(used)} of that. "
            "A slightly larger batch or input would run out of memory.",
            share=min(1.0, share),
            evidence=_at(device, at_ns),
            fix="The Memory page shows what is alive at the peak. Usual fixes: a smaller batch "
            "with gradient accumulation, torch.utils.checkpoint, bfloat16, a sharded optimizer.",
            severity=Severity.HIGH,
        )
    return None


@DETECTORS.register
def fragmentation(facts: Facts) -> Finding | None:
    """Find an allocator that holds much more than was ever in use."""
    trace = with_memory(facts.trace)
    for device, total in _devices(trace):
        (held_bytes, _), peak = _most_held(trace, device), memory_timeline(trace, device).peak()
        share = (held_bytes - peak.bytes) / held_bytes if held_bytes else 0.0
        if share < MIN_UNUSED or held_bytes < MIN_HELD * total:
            continue
        return Finding(
            id="fragmentation",
            title=f"{share:.0%} of the memory held on {device} was not in use",
            text=f"The allocator holds {size_text(held_bytes)}, but tensors used no more than "
            f"{size_text(peak.bytes)} of it during the recording: either more was needed "
            "earlier, or the memory is fragmented into blocks that do not fit.",
            share=share,
            evidence=_at(device, peak.time_ns),
            fix=f"Set {allocator_setting(facts)}; avoid sizes that change from step to step (pad "
            "to a few lengths).",
            severity=Severity.MEDIUM if held_bytes >= SCARCE * total else Severity.LOW,
        )
    return None


def _devices(trace: Trace) -> Iterator[tuple[str, int]]:
    """Yield every device with recorded memory whose size is known, and its size."""
    for device in devices(trace):
        total = 0 if device.startswith(CPU) else _total_bytes(trace, device)
        if total and trace.memory.size[rows_of_device(trace, device)].any():
            yield device, total


def _most_held(trace: Trace, device: str) -> tuple[int, int]:
    """Return the most memory that the allocator held, and when; else the most in use."""
    rows, peak = rows_of_device(trace, device), memory_timeline(trace, device).peak()
    at = rows[int(trace.memory.reserved[rows].argmax())]
    held_bytes = int(trace.memory.reserved[at])
    return (
        (held_bytes, int(trace.memory.time_ns[at]))
        if held_bytes > peak.bytes
        else (peak.bytes, peak.time_ns)
    )


def _total_bytes(trace: Trace, device: str) -> int:
    """Return a device's memory in bytes, 0 if the trace does not state it."""
    number = device.partition(":")[2] or "0"
    sizes = (
        properties.memory_bytes for properties in trace.devices() if str(properties.id) == number
    )
    return next(sizes, 0)


def _at(device: str, time_ns: int) -> dict[str, Any]:
    return {"page": "memory", "device": device, "at": time_ns}


@DETECTORS.register
def driver_allocations(facts: Facts) -> Finding | None:
    """Find memory that the steps request from the driver or give back to it."""
    calls = _allocations(facts)
    if len(calls) < max(facts.steps, MIN_CALLS):
        return None
    steps = max(facts.steps, 1)
    slices = facts.trace.slices
    spent = union(slices.start_ns[calls], slices.ends_of(calls)).shared_with(facts.loop)
    spent_ns = spent.total_ns / steps
    if spent_ns < MIN_ALLOCATIONS_SHARE * float(facts.device_parts_ns.sum()):
        return None
    # The device runs out of work meanwhile, so its waits are due to the same calls.
    slack_ns = float(facts.gap_ns[gaps_for_memory(facts)].sum()) / steps
    spot = hot_spot(facts.ledger, moments_inside(facts, calls))
    where = f": {spot.words}" if spot else ""
    return device_finding(
        facts,
        "driver-allocations",
        title=f"{facts.commonest(calls)} is called {len(calls) / steps:,.0f} times"
        f"{' a step' if facts.steps else ''}{where}",
        text=f"{count_text(len(calls), 'call')} that ask the driver for memory or give it back "
        f"take {duration_text(spent_ns)} of {'every step' if facts.steps else 'the run'} and make "
        "the device wait.",
        fix="Let the framework keep its memory: no torch.cuda.empty_cache() in the loop, only a "
        f"few distinct tensor sizes, {allocator_setting(facts)} where memory is fragmented.",
        saves_ns=max(spent_ns, slack_ns),
        evidence=facts.on_timeline(facts.longest(calls)),
        places=spot.places if spot else (),
    )


def allocator_setting(facts: Facts) -> str:
    """Return the setting that lowers fragmentation; expandable segments exist on NVIDIA only."""
    if facts.is_amd:
        return "PYTORCH_HIP_ALLOC_CONF=garbage_collection_threshold:0.8,max_split_size_mb:512"
    return "PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True"


def gaps_for_memory(facts: Facts) -> Bool:
    """Return a mask of the gaps in which the host asks the driver for memory."""
    gaps, calls = facts.gaps, _allocations(facts)
    is_for_memory = np.zeros(len(gaps), np.bool_)
    order = np.argsort(gaps.start_ns, kind="stable")
    at = np.searchsorted(gaps.start_ns[order], facts.trace.slices.ends_of(calls)) - 1
    is_for_memory[order[at[at >= 0]]] = True
    return is_for_memory


def _allocations(facts: Facts) -> Int64:
    """Return the calls in the loop that ask the driver for memory or give it back."""
    slices = facts.trace.slices
    calls = np.flatnonzero(slices.kind == SliceKind.RUNTIME)
    asks = has_text(slices.name[calls], facts.trace.strings, DRIVER_ALLOCATION.match)
    return facts.in_loop(calls[asks])
