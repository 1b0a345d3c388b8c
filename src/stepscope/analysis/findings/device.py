"""Devices that are idle: the host is too slow, kernels are too short, or a stream waits."""

from __future__ import annotations

import numpy as np

from stepscope.analysis.base.labels import shown_name
from stepscope.analysis.base.remedies import Remedy
from stepscope.analysis.calls.stated_parts import Part
from stepscope.analysis.findings.facts import Facts, moment
from stepscope.analysis.findings.launched import device_finding, launching_lines
from stepscope.analysis.findings.memory import gaps_for_memory
from stepscope.analysis.findings.model import DETECTORS, Finding
from stepscope.analysis.findings.optimizer import unfused_optimizer
from stepscope.analysis.findings.spots import hot_spot, share_words
from stepscope.analysis.findings.transfers import host_waits
from stepscope.analysis.steps.causes import COMPUTING, Cause
from stepscope.analysis.work.idle import IdleReason, waiting_calls
from stepscope.analysis.work.work import WorkKind
from stepscope.trace.model import NO_SLICE, Bool, Int64
from stepscope.units import count_text, duration_text

MIN_QUEUED_SHARE = 0.20  # some µs between two kernels are the device's own
# Shorter gaps between queued work are what changing from one kernel to the next takes.
LONG_QUEUED_NS = 20_000

# Some idle time at the edges of steps is usual; a fifth of the device's time is not.
MIN_IDLE_SHARE = 0.20
# A launch takes the host about this long: shorter kernels cannot keep a device busy.
TINY_NS = 5_000
# Every model has some small kernels; hundreds of them, and half of all, can be avoided.
MIN_TINY_SHARE, MIN_TINY_KERNELS, MIN_TINY_SAVING = 0.50, 500, 0.05
# Launching the next kernel takes the host less; in a longer gap it does something else.
SHORT_GAP_NS = 50_000
# With more launches unknown (XLA's), idle time of unknown reason is the host's.
MOST_LAUNCHES_UNKNOWN = 0.9
FUSED = 0.7  # share of the time of tiny kernels that fusing them into larger ones saves

# What the host does in a gap while it runs the model; all else has findings of its own.
_LAUNCHING = (
    *(*COMPUTING, Cause.LIBRARY, Cause.IDLE, Cause.OTHER),
    Cause.COMMUNICATION,
)


@DETECTORS.register
def host_too_slow(facts: Facts) -> Finding | None:
    """Find a device that waits for the host to launch something."""
    if not len(facts.work):
        return None
    gaps = facts.gaps
    lost_ns = _host_gaps(facts)
    lost_ns[_before_tiny(facts, lost_ns) | gaps_for_memory(facts)] = 0
    lost_ns = np.maximum(lost_ns - host_waits(facts).gap_ns, 0)
    total_ns = _without_other_causes(facts, float(lost_ns.sum()) / len(facts.work.devices))
    each_ns = total_ns / max(facts.steps, 1)
    whole_ns = float(facts.device_parts_ns.sum())
    share = min(each_ns / whole_ns, 1.0) if whole_ns else 0.0
    if share < MIN_IDLE_SHARE:
        return None
    between_ns = facts.idle_ns(IdleReason.HOST, IdleReason.LAUNCH)
    worst = int((between_ns if between_ns.any() else lost_ns).argmax())
    start_ns, end_ns = int(gaps.start_ns[worst]), int(gaps.end_ns[worst])
    kernels = int(facts.work.is_kernel.sum())
    ledger = facts.ledger
    spot = hot_spot(ledger, ledger.spent_on(*_LAUNCHING)) if len(facts.trace.samples) else None
    where = f": {spot.words}" if spot else ""
    compiled = facts.advise(Remedy.FEWER_LAUNCHES, "")
    graphs = f"{compiled}{_graphs(facts)}" if compiled else ""
    return device_finding(
        facts,
        "host-bound",
        title=f"The device is idle {share_words(share, ledger.unit)} because the host is too slow"
        f"{where}",
        text=f"In {count_text(int((lost_ns > 0).sum()), 'gap')} "
        f"({duration_text(total_ns)} in total) the device had finished all its work "
        f"before the host launched more; {count_text(kernels, 'kernel')} took "
        f"{duration_text(float(facts.work.duration_ns[facts.work.is_kernel].sum()))} in total.",
        fix="Give the device more work per launch: a larger batch, fused operators"
        f"{graphs}; move Python work out of the loop.",
        saves_ns=each_ns,
        evidence=moment(start_ns, end_ns),
        places=spot.places if spot else (),
    )


@DETECTORS.register
def tiny_kernels(facts: Facts) -> Finding | None:
    """Find a program that launches many kernels that are shorter than their launch."""
    work, tiny = facts.work, _tiny_kernels(facts)
    kernels = np.flatnonzero(work.kind == WorkKind.COMPUTE)
    if not len(tiny):
        return None
    lost_ns = _host_gaps(facts)
    idle_ns = float(lost_ns[_before_tiny(facts, lost_ns)].sum()) / len(work.devices)
    is_tiny = np.zeros(len(work), np.bool_)
    is_tiny[tiny] = True
    saves_ns = idle_ns / max(facts.steps, 1) + FUSED * facts.each_ns(is_tiny)
    if saves_ns < MIN_TINY_SAVING * max(float(facts.device_parts_ns.sum()), 1):
        return None
    operators = work.operator[work.rows[tiny]]
    known_operators = operators[operators != NO_SLICE]
    who = (
        f"; most are launched by {shown_name(facts.commonest(known_operators))}"
        if len(known_operators)
        else ""
    )
    row = int(work.rows[tiny[len(tiny) // 2]])
    per_step = f" ({len(tiny) / facts.steps:,.0f} per step)" if facts.steps else ""
    idle = share_words(
        idle_ns / max(facts.steps, 1) / max(float(facts.device_parts_ns.sum()), 1),
        facts.ledger.unit,
    )
    compiler = facts.advise(Remedy.COMPILER, "")
    compiled = f"{compiler}, " if compiler else ""
    return device_finding(
        facts,
        "tiny-kernels",
        title=f"{len(tiny) / len(kernels):.0%} of the kernels take less than "
        f"{duration_text(TINY_NS)}",
        text=f"{count_text(len(tiny), 'kernel')}{per_step} are so short that launching them takes "
        f"longer than running them{who}. The gaps before them take {idle}.",
        fix=f"Fuse several into one: {compiled}fused or foreach optimizers, "
        f"scaled_dot_product_attention, a larger batch; {_graphs(facts)} make launches cheaper.",
        saves_ns=saves_ns,
        evidence=facts.on_timeline(row),
        places=launching_lines(facts, is_tiny),
    )


def _graphs(facts: Facts) -> str:
    return "HIP graphs (torch.cuda.CUDAGraph)" if facts.is_amd else "CUDA graphs"


def _tiny_kernels(facts: Facts) -> Int64:
    """Return the kernels shorter than a launch; none if there are few."""
    work = facts.work
    kernels = np.flatnonzero(work.kind == WorkKind.COMPUTE)
    tiny = kernels[work.duration_ns[kernels] < TINY_NS]
    least = max(MIN_TINY_KERNELS, MIN_TINY_SHARE * len(kernels))
    if len(tiny) >= least and unfused_optimizer(facts) is not None:  # a finding of its own
        parts = np.append(facts.parts, Part.OTHER)  # the last for no slice
        tiny = tiny[parts[work.operator[work.rows[tiny]]] != Part.OPTIMIZER]
    return tiny if len(tiny) >= least else tiny[:0]


def _host_gaps(facts: Facts) -> Int64:
    """Return how much of each gap is due to the host.

    In marked steps that is also the time before the first and after the last work.
    """
    reasons = [IdleReason.HOST, IdleReason.LAUNCH]
    if (facts.work.call == NO_SLICE).mean() > MOST_LAUNCHES_UNKNOWN:
        reasons.append(IdleReason.UNKNOWN)
    if facts.steps:
        reasons += [IdleReason.BEFORE_FIRST, IdleReason.AFTER_LAST]
    return facts.idle_ns(*reasons)


def _before_tiny(facts: Facts, lost_ns: Int64) -> Bool:
    """Return a mask of the short gaps before tiny kernels, which fusing would save."""
    is_tiny = np.zeros(len(facts.trace.slices) + 1, np.bool_)  # the last for no slice
    is_tiny[facts.work.rows[_tiny_kernels(facts)]] = True
    in_waits = host_waits(facts).gap_ns > 0  # they have a finding of their own
    before_tiny: Bool = is_tiny[facts.gaps.before] & (lost_ns < SHORT_GAP_NS) & ~in_waits
    return before_tiny


def _without_other_causes(facts: Facts, total_ns: float) -> float:
    """Return the idle time without what the host does otherwise, which other findings report."""
    if not len(facts.trace.samples):
        return total_ns
    ledger = facts.ledger
    sampled = ledger.row >= 0
    launching = ledger.spent_on(*_LAUNCHING)
    if unfused_optimizer(facts) is not None:
        launching &= ~ledger.spent_on(Cause.OPTIMIZER)
    return min(total_ns, float(ledger.weight_ns[sampled & launching].sum()))


@DETECTORS.register
def waiting_streams(facts: Facts) -> Finding | None:
    """Find a device that is idle although work is queued."""
    if not len(facts.work):
        return None
    lost_ns = facts.idle_ns(IdleReason.QUEUED)
    lost_ns[facts.gaps.duration_ns < LONG_QUEUED_NS] = 0
    each_ns = float(lost_ns.sum()) / len(facts.work.devices) / max(facts.steps, 1)
    unit_ns = float(facts.device_parts_ns.sum())
    if not unit_ns or each_ns < MIN_QUEUED_SHARE * unit_ns:
        return None
    share = share_words(min(each_ns / unit_ns, 1.0), facts.ledger.unit)
    gaps, worst = facts.gaps, int(lost_ns.argmax())
    start_ns, end_ns = int(gaps.start_ns[worst]), int(gaps.end_ns[worst])
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
    """Name the call in which the host waits during most of the longest gap, if any."""
    gaps, slices = facts.gaps, facts.trace.slices
    worst = int(lost_ns.argmax())
    begin, end = int(gaps.start_ns[worst]), int(gaps.end_ns[worst])
    calls = waiting_calls(facts.trace, facts.work)
    shared_ns = np.minimum(slices.ends_of(calls), end) - np.maximum(slices.start_ns[calls], begin)
    if not len(calls) or int(shared_ns.max()) < (end - begin) // 2:
        return ""
    call = int(calls[shared_ns.argmax()])
    return (
        f" Meanwhile the host waits for {duration_text(int(slices.duration_ns[call]))} in "
        f"{facts.trace.name_of(call)}."
    )
