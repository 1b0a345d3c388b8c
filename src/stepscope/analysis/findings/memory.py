"""Memory of devices: close to what there is, or held and not used."""

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
"""The driver, libraries and other programs take some of the memory, too: a tenth is soon gone."""

MIN_UNUSED = 0.30
"""An allocator always holds some more than is in use; a third of it is not the usual rounding."""

MIN_HELD = 0.10
"""Of the device's memory: while the allocator holds less, nobody misses it."""

SCARCE = 0.50
"""Of the device's memory: from here on what is held in vain may be missed."""


@DETECTORS.register
def memory_near_limit(facts: Facts) -> Finding | None:
    """Find a device whose memory is almost all taken."""
    trace = with_memory(facts.trace)
    for device, rows, total in _devices(trace):
        held = _held(trace, rows)
        at = int(held.argmax())
        share = int(held[at]) / total
        if share < NEAR_LIMIT:
            continue
        used = int(in_use(trace.memory, rows).max())
        return Finding(
            id="memory-near-limit",
            title=f"{device} is {share:.0%} full",
            text=f"The allocator held {size_text(int(held[at]))} of the device's "
            f"{size_text(total)} at most; tensors took {size_text(used)} of that at their peak. "
            "A slightly larger batch or input runs out of memory.",
            share=min(1.0, share),
            evidence=_at(device, int(trace.memory.time_ns[rows[at]])),
            fix="See on the memory page what is alive at the peak. Usually: a smaller batch with "
            "gradient accumulation, torch.utils.checkpoint, bfloat16, a sharded optimizer.",
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
            text=f"The allocator holds {size_text(held)}, and tensors took no more than "
            f"{size_text(int(used[at]))} of it while this was recorded: either more was needed "
            "before, or it is cut into pieces that do not fit.",
            share=share,
            evidence=_at(device, int(trace.memory.time_ns[rows[at]])),
            fix="PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True; avoid sizes that change from "
            "step to step (padding to a few lengths).",
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
