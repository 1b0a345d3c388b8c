"""Device memory that the loop requests from the driver."""

from __future__ import annotations

import re

import numpy as np

from stepscope.analysis.findings.facts import Facts
from stepscope.analysis.findings.launched import device_finding
from stepscope.analysis.findings.model import DETECTORS, Finding
from stepscope.analysis.findings.model_calls import moments_inside
from stepscope.analysis.findings.spots import hot_spot
from stepscope.analysis.intervals import union
from stepscope.analysis.tree import ids_where
from stepscope.trace.model import Bool, Int64, SliceKind
from stepscope.units import count_text, duration_text

# A caching allocator asks the driver for memory at first, and hardly ever in a step.
MIN_ALLOCATIONS_SHARE = 0.03
MIN_CALLS = 10  # in a run without steps, a few calls may be the first of their kind

DRIVER_ALLOCATION = re.compile(
    r"^(cuda|hip)(Malloc|Free)(?!Async|Host)|^cuMem(Alloc|Free|Create|Map|Unmap|Release|Address)"
)


@DETECTORS.register
def driver_allocations(facts: Facts) -> Finding | None:
    """Find memory that is asked for from the driver, or given back to it, in the steps."""
    calls = _allocations(facts)
    if len(calls) < max(facts.steps, MIN_CALLS):
        return None
    steps = max(facts.steps, 1)
    slices = facts.trace.slices
    spent = union(slices.start_ns[calls], slices.ends_of(calls)).shared_with(facts.loop)
    spent_ns = spent.total_ns / steps
    if spent_ns < MIN_ALLOCATIONS_SHARE * float(facts.device_parts_ns.sum()):
        return None
    # The device runs dry meanwhile: what it waits for besides is lost to the same calls.
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
    """Return what lowers fragmentation; segments that grow are there on NVIDIA's devices."""
    if facts.is_amd:
        return "PYTORCH_HIP_ALLOC_CONF=garbage_collection_threshold:0.8,max_split_size_mb:512"
    return "PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True"


def gaps_for_memory(facts: Facts) -> Bool:
    """Return in which gaps of the devices the host asks the driver for memory."""
    gaps, calls = facts.gaps, _allocations(facts)
    found = np.zeros(len(gaps), np.bool_)
    order = np.argsort(gaps.start_ns, kind="stable")
    at = np.searchsorted(gaps.start_ns[order], facts.trace.slices.ends_of(calls)) - 1
    found[order[at[at >= 0]]] = True
    return found


def _allocations(facts: Facts) -> Int64:
    """Return the calls in the steps that ask the driver for memory or give it back."""
    slices = facts.trace.slices
    calls = np.flatnonzero(slices.kind == SliceKind.RUNTIME)
    names = ids_where(
        slices.name[calls],
        facts.trace.strings,
        lambda name: DRIVER_ALLOCATION.match(name) is not None,
    )
    calls = calls[np.isin(slices.name[calls], names)]
    return facts.in_loop(calls)
