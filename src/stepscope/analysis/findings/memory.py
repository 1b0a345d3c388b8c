"""Device memory: nearly full, or held by the allocator without being used."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from stepscope.analysis.findings.model import DETECTORS, Finding, Severity
from stepscope.analysis.memory.usage import CPU, devices, in_use, rows_of_device, with_memory
from stepscope.units import size_text

if TYPE_CHECKING:
    from collections.abc import Iterator

    from stepscope.analysis.findings.facts import Facts
    from stepscope.trace.model import Int64, Trace

NEAR_LIMIT = 0.90
"""The driver, libraries and other programs need memory too: the last tenth is soon gone."""

MIN_VARYING = 0.05
"""Share of the device's memory: if what is in use varies by less, it was taken in advance (the
cache of a server for language models), and nothing will run out."""

MIN_UNUSED = 0.30
"""An allocator always holds a little more than is in use; a third is more than rounding."""

MIN_HELD = 0.10
"""Share of the device's memory; an allocator that holds less does not matter."""

SCARCE = 0.50
"""Share of the device's memory; from here on, unused memory may be needed elsewhere."""


@DETECTORS.register
def memory_near_limit(facts: Facts) -> Finding | None:
    """Find a device whose memory is nearly full."""
    trace = with_memory(facts.trace)
    for device, rows, total in _devices(trace):
        held = _held(trace, rows)
        at = int(held.argmax())
        share = int(held[at]) / total
        if share < NEAR_LIMIT:
            continue
        in_steps = in_use(trace.memory, rows)
        used = int(in_steps.max())
        if used - int(in_steps.min()) < MIN_VARYING * total:
            continue
        return Finding(
            id="memory-near-limit",
            title=f"The memory of {device} is {share:.0%} full",
            text=f"The allocator held up to {size_text(int(held[at]))} of the device's "
            f"{size_text(total)}; tensors used up to {size_text(used)} of that. "
            "A slightly larger batch or input would run out of memory.",
            share=min(1.0, share),
            evidence=_at(device, int(trace.memory.time_ns[rows[at]])),
            fix="The Memory page shows what is alive at the peak. Usual fixes: a smaller batch "
            "with gradient accumulation, torch.utils.checkpoint, bfloat16, a sharded optimizer.",
            severity=Severity.HIGH,
        )
    return None


@DETECTORS.register
def fragmentation(facts: Facts) -> Finding | None:
    """Find an allocator that holds much more than was ever in use."""
    trace = with_memory(facts.trace)
    for device, rows, total in _devices(trace):
        held, used = int(_held(trace, rows).max()), in_use(trace.memory, rows)
        at = int(used.argmax())
        share = (held - int(used[at])) / held if held else 0.0
        if share < MIN_UNUSED or held < MIN_HELD * total:
            continue
        return Finding(
            id="fragmentation",
            title=f"{share:.0%} of the memory held on {device} was not in use",
            text=f"The allocator holds {size_text(held)}, but tensors used no more than "
            f"{size_text(int(used[at]))} of it during the recording: either more was needed "
            "earlier, or the memory is fragmented into blocks that do not fit.",
            share=share,
            evidence=_at(device, int(trace.memory.time_ns[rows[at]])),
            fix="Set PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True; avoid sizes that change "
            "from step to step (pad to a few lengths).",
            severity=Severity.MEDIUM if held >= SCARCE * total else Severity.LOW,
        )
    return None


def _devices(trace: Trace) -> Iterator[tuple[str, Int64, int]]:
    """Yield every device with recorded memory whose size is known, its events, and its size."""
    for device in devices(trace):
        total = 0 if device.startswith(CPU) else _total_bytes(trace, device)
        if total:
            yield device, rows_of_device(trace, device), total


def _held(trace: Trace, rows: Int64) -> Int64:
    """Return what the allocator holds; what is in use where it does not say."""
    return np.maximum(trace.memory.reserved[rows], in_use(trace.memory, rows))


def _total_bytes(trace: Trace, device: str) -> int:
    """Return the memory of a device as the trace describes it, 0 where it does not."""
    number = device.partition(":")[2] or "0"
    found = (each.memory_bytes for each in trace.devices() if str(each.id) == number)
    return next(found, 0)


def _at(device: str, time_ns: int) -> dict[str, Any]:
    return {"page": "memory", "device": device, "at": time_ns}
