"""Copies, and operators such as ``.item()`` and ``nonzero``, that the device or host waits for."""

from __future__ import annotations

from functools import cached_property

import numpy as np

from stepscope.analysis.base.landmarks import landmarks
from stepscope.analysis.base.shared import shared
from stepscope.analysis.base.sums import around
from stepscope.analysis.base.tree import framework_operators, has_text
from stepscope.analysis.calls.stated_parts import Part
from stepscope.analysis.device.copies import copy_table
from stepscope.analysis.findings.facts import Facts
from stepscope.analysis.findings.launched import (
    device_finding,
    launching_lines,
    lines_of_operators,
)
from stepscope.analysis.findings.model import DETECTORS, Finding
from stepscope.analysis.findings.spots import share_words
from stepscope.analysis.work.idle import IdleReason, waiting_calls
from stepscope.analysis.work.work import WorkKind
from stepscope.trace.model import NO_PARENT, NO_SLICE, Bool, Int64, SliceKind
from stepscope.units import BANDWIDTH, count_text, duration_text

MIN_WAITING_SHARE = 0.02  # if waits take less of the device's time, the search is not worth it
MIN_COPIES_SHARE = 0.10  # share of a step in which devices copy and compute nothing

_PINNED = "Pinned"


@DETECTORS.register
def waiting_copies(facts: Facts) -> Finding | None:
    """Find operators inside the steps that make the host wait for the device."""
    if not len(facts.work):
        return None
    host_wait = host_waits(facts)
    waits, above = host_wait.calls, host_wait.operator
    if len(waits) < max(facts.steps, 1):
        return None
    lost_ns = host_wait.lost_ns
    share = int(lost_ns.sum()) / facts.device_ns
    if share < MIN_WAITING_SHARE:
        return None
    waited_ns = int(facts.trace.slices.duration_ns[waits].sum())
    return device_finding(
        facts,
        "waiting-copies",
        title=f"The host waits for the device {_often(len(waits), facts.steps)}",
        text=f"Mostly in {facts.commonest(above)}: {count_text(len(waits), 'call')} that waited "
        f"for the device, {duration_text(waited_ns)} in total. Around each one the device is idle "
        f"until the host launches more work: {share:.0%} of its time.",
        fix=_waiting_fix(facts.commonest(above)),
        saves_ns=float(lost_ns.sum()) / len(facts.work.devices) / max(facts.steps, 1),
        evidence=facts.on_timeline(facts.longest(above), facts.commonest(above)),
        places=lines_of_operators(facts, np.unique(above)),
    )


@DETECTORS.register
def exposed_copies(facts: Facts) -> Finding | None:
    """Find copies between host and device during which nothing is computed."""
    exposed_ns = float(facts.device_parts_ns[Part.COPIES])
    unit_ns = float(facts.device_parts_ns.sum())
    if not unit_ns or exposed_ns < MIN_COPIES_SHARE * unit_ns:
        return None
    table = copy_table(facts.trace, facts.work)
    if not table.exposed_ns.any():
        return None
    worst = int(table.exposed_ns.argmax())
    name = table.name[worst]
    has_name = has_text(facts.trace.slices.name[facts.work.rows], facts.trace.strings, name.__eq__)
    which = (facts.work.kind == WorkKind.COPY) & has_name
    share = exposed_ns / unit_ns
    rate = float(table.bytes_per_second[worst])
    speed = f", at {BANDWIDTH.text(rate)}" if rate else ""
    return device_finding(
        facts,
        "exposed-copies",
        title=f"Copying takes {share_words(share, facts.ledger.unit)}, and devices compute "
        f"nothing meanwhile: mostly {name.removeprefix('Memcpy ')}",
        text=f"{count_text(int(table.count[worst]), 'copy', 'copies')} of that kind, "
        f"{duration_text(int(table.exposed_ns[worst]))} in all with no kernel running at the same "
        f"time{speed}.",
        fix=_copy_fix(name),
        saves_ns=exposed_ns,
        evidence=facts.on_timeline(facts.longest(facts.work.rows[which])),
        places=launching_lines(facts, which),
    )


def _waiting_fix(operator: str) -> str:
    """Return advice on the waits of the operator that makes most of them."""
    if operator in landmarks().sized_by_values:
        return (
            "The size of such a result depends on the data, and the host must wait to learn it: "
            "use torch.where, multiplication by a mask, topk or a fixed number of results instead "
            "of boolean indexing, nonzero or unique; or do it once on the whole batch."
        )
    return (
        "Keep results on the device: no .item(), .cpu(), print(loss) or `if tensor` in every step; "
        "accumulate the loss there and read it occasionally. Copy batches from pinned memory with "
        "non_blocking=True."
    )


def _copy_fix(name: str) -> str:
    if any(word in name for word in ("HtoD", "Host To Device", "HostToDevice")):
        pinned = (
            "Copy from pinned memory (DataLoader(pin_memory=True), tensor.pin_memory()) with "
            "non_blocking=True, so that the next batch is copied while this one is computed"
        )
        return (
            f"{pinned}; copy a smaller type and convert on the device."
            if _PINNED not in name  # AMD's drivers do not say
            else "Copy the next batch while this one is computed, on a stream of its own; copy a "
            "smaller type and convert on the device."
        )
    if any(word in name for word in ("DtoH", "Device To Host", "DeviceToHost")):
        return (
            "Keep results on the device, and copy back what is needed every few dozen steps, to "
            "pinned memory with non_blocking=True."
        )
    return "Keep the data on the device where it is used."


def _often(times: int, steps: int) -> str:
    per_step = round(times / max(steps, 1))
    return ("once" if per_step == 1 else f"{per_step:,} times") + (" per step" if steps else "")


class HostWaits:
    """The calls of the loop that wait for the device, and the operators that make them."""

    def __init__(self, facts: Facts) -> None:
        self._facts = facts
        calls = facts.in_loop(waiting_calls(facts.trace, facts.work))
        slices = facts.trace.slices
        operator = around(slices.parent, calls, slices.kind == SliceKind.OPERATOR)
        self.calls = calls[operator != NO_PARENT]
        self.operator: Int64 = operator[operator != NO_PARENT]  # the innermost around each

    @cached_property
    def gap_ns(self) -> Int64:
        """Return how much of each gap a waiting operator takes to launch its work.

        Without the wait the operator would not be there: ``nonzero`` counts, waits, and then
        launches what depends on the count.
        """
        facts, slices, gaps = self._facts, self._facts.trace.slices, self._facts.gaps
        operator = np.append(facts.work.operator, NO_SLICE)[gaps.before]
        in_one = np.flatnonzero(np.append(self._is_waiting, False)[operator])
        outermost = operator[in_one]
        climbing = np.arange(len(outermost))
        while len(climbing):
            parent = slices.parent[outermost[climbing]]
            waits = (parent != NO_PARENT) & self._is_waiting[parent]
            climbing, parent = climbing[waits], parent[waits]
            outermost[climbing] = parent
        end_ns = gaps.end_ns[in_one]
        since_ns = np.maximum(slices.start_ns[outermost], gaps.start_ns[in_one])
        idle_ns = facts.idle_ns(IdleReason.HOST, IdleReason.LAUNCH)
        launching_ns = np.zeros(len(gaps), np.int64)
        launching_ns[in_one] = np.minimum(np.maximum(end_ns - since_ns, 0), idle_ns[in_one])
        return launching_ns

    @cached_property
    def _is_waiting(self) -> Bool:
        """Return a mask of operators that wait or call one: ``index`` calls ``nonzero``."""
        slices = self._facts.trace.slices
        is_waiting = np.zeros(len(slices), np.bool_)
        is_waiting[self.operator] = True
        torchs = framework_operators(self._facts.trace)
        climbing = np.unique(self.operator)
        while len(climbing):
            climbing = np.unique(slices.parent[climbing])
            climbing = climbing[climbing != NO_PARENT]
            climbing = climbing[torchs[climbing] & ~is_waiting[climbing]]
            is_waiting[climbing] = True
        return is_waiting

    @cached_property
    def lost_ns(self) -> Int64:
        after_ns = self._facts.idle_ns(IdleReason.SYNCHRONISATION, IdleReason.AFTER_SYNC)
        return after_ns + self.gap_ns


@shared
def host_waits(facts: Facts) -> HostWaits:
    """Return the host's waits for the device in the loop."""
    return HostWaits(facts)
