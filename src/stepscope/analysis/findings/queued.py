"""Devices that have work in their queues and do none of it: it waits for something else."""

from __future__ import annotations

import numpy as np

from stepscope.analysis.device.idle import IdleReason, waiting_calls
from stepscope.analysis.findings.facts import Facts, moment
from stepscope.analysis.findings.launched import device_finding
from stepscope.analysis.findings.model import DETECTORS, Finding
from stepscope.analysis.findings.spots import share_words
from stepscope.trace.model import Int64
from stepscope.units import count_text, duration_text

MIN_SHARE = 0.20  # some µs between two kernels are the device's own
# Shorter gaps between queued work are what changing from one kernel to the next takes.
LONG_NS = 20_000


@DETECTORS.register
def waiting_streams(facts: Facts) -> Finding | None:
    """Find a device that is idle though work was launched long before."""
    if not len(facts.work):
        return None
    lost_ns = facts.idle_ns(IdleReason.QUEUED)
    lost_ns[facts.gaps.duration_ns < LONG_NS] = 0
    each_ns = float(lost_ns.sum()) / len(facts.work.devices) / max(facts.steps, 1)
    unit_ns = float(facts.device_parts_ns.sum())
    if not unit_ns or each_ns < MIN_SHARE * unit_ns:
        return None
    share = share_words(min(each_ns / unit_ns, 1.0), facts.ledger.unit)
    gaps, worst = facts.gaps, int(lost_ns.argmax())
    start_ns, end_ns = (
        int(gaps.start_ns[worst]),
        int(gaps.start_ns[worst] + gaps.duration_ns[worst]),
    )
    count = count_text(int((lost_ns > 0).sum()), "gap")
    return device_finding(
        facts,
        "waiting-streams",
        title=f"The device is idle {share} while work is queued",
        text=f"In {count} ({duration_text(float(lost_ns.sum()))} in total) the next work had "
        "already been launched but did not start: its stream waits for another stream, an event, "
        f"or work that is not in the trace.{_meanwhile(facts, lost_ns)}",
        fix="Find out what it waits for: the event that the stream waits for "
        "(a call like cudaStreamWaitEvent), another process on the device, a copy or a peer that "
        "is late. Work that does not depend on another stream can run on a stream of its own.",
        saves_ns=each_ns,
        evidence=moment(start_ns, end_ns),
    )


def _meanwhile(facts: Facts, lost_ns: Int64) -> str:
    """Say which call the host waits in during the longest gap, if it does for most of it."""
    gaps, slices = facts.gaps, facts.trace.slices
    worst = int(lost_ns.argmax())
    begin, end = int(gaps.start_ns[worst]), int(gaps.start_ns[worst] + gaps.duration_ns[worst])
    calls = waiting_calls(facts.trace, facts.work)
    shared_ns = np.minimum(slices.ends_of(calls), end) - np.maximum(slices.start_ns[calls], begin)
    if not len(calls) or int(shared_ns.max()) < (end - begin) // 2:
        return ""
    call = int(calls[shared_ns.argmax()])
    return (
        f" Meanwhile the host waits for {duration_text(int(slices.duration_ns[call]))} in "
        f"{facts.trace.name_of(call)}."
    )
