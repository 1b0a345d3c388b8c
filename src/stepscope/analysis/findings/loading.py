"""Data loading that the program waits for."""

from __future__ import annotations

import re
from dataclasses import replace

import numpy as np

from stepscope.analysis.base.landmarks import landmarks
from stepscope.analysis.base.remedies import Remedy
from stepscope.analysis.calls.stated_parts import Part
from stepscope.analysis.code.own_lines import Place
from stepscope.analysis.code.sampled_stacks import NO_SAMPLE, any_in
from stepscope.analysis.findings.facts import Facts
from stepscope.analysis.findings.model import DETECTORS, Finding, Severity
from stepscope.analysis.findings.spots import hot_spot, hottest_path, source_line
from stepscope.analysis.steps.causes import Cause
from stepscope.trace.model import RUNNING_STATES
from stepscope.units import duration_text

# A healthy loader prepares the next batch while the step runs, so the wait is negligible.
MIN_SHARE = 0.10
MATTERS = 0.20  # shorter waits may be due to a busy machine: workers and the step share its cores
MOST_IN_THREAD = 0.5  # a thread that works for this share of the waits is what they are for
# If workers take this share of the loader's time to start and end, they should be kept.
MIN_RESTARTS = 0.3

_ABOUT_WORKERS = re.compile(
    r"MultiProc\w*\.__init__$|\._?(try_)?shutdown_\w+$|\._init_workers$"
).search
_WITH_WORKERS = "MultiProcessing"  # in the name of the iterator of a loader that has workers
_WORKERS = 4  # threads; enough for most programs


@DETECTORS.register
def slow_loading(facts: Facts) -> Finding | None:
    """Find steps that wait for data; waits during which devices work do not count."""
    breakdown = facts.breakdown
    step_ns = int(breakdown.duration_ns[facts.counted].sum())
    loading_ns = int(breakdown.parts_ns[facts.counted, Part.DATA_LOADING].sum())
    waits = facts.ledger.spent_on(Cause.DATA_LOADING)
    spot = hot_spot(facts.ledger, waits)
    if spot and not breakdown.on_device.any():
        # Starting and ending workers is in no range of the loader's, a garbage collection may be.
        loading_ns = round(facts.ledger.each_ns(waits) * facts.steps)
    if spot and (path := _in_its_thread(facts, loading_ns)):
        spot = replace(spot, path=path)
    if not step_ns or loading_ns < MIN_SHARE * step_ns:
        return None
    share = loading_ns / step_ns
    idle = ", and the device is idle meanwhile" if breakdown.on_device.any() else ""
    where = f": {spot.words}" if spot else ""
    text = (
        f"An average step takes {duration_text(step_ns / facts.steps)}; for "
        f"{duration_text(loading_ns / facts.steps)} of that the program waits for the next "
        f"batch{idle}."
    )
    loader, evidence = "", source_line(spot.place) if spot else {}
    if (row := _longest_wait(facts)) is not None:
        longest_ns = int(facts.trace.slices.duration_ns[row])
        text += f" The longest wait took {duration_text(longest_ns)}."
        loader, evidence = facts.trace.name_of(row), facts.on_timeline(row)
    return Finding(
        id="data-loading",
        title=f"Data loading takes {share:.0%} of a step{where}",
        text=text,
        share=share,
        evidence=evidence,
        fix=_fix(facts, loader),
        severity=Severity.of_share(share) if share >= MATTERS else Severity.LOW,
        saves_ns=loading_ns / facts.steps,
        of_ns=step_ns / facts.steps,
        places=spot.places if spot else (),
    )


def _longest_wait(facts: Facts) -> int | None:
    """Return the longest call of a loader's iterator; None if only samples show it."""
    slices = facts.trace.slices
    is_loading = facts.parts == Part.DATA_LOADING
    around = facts.parts[slices.parent] == Part.DATA_LOADING
    rows = np.flatnonzero(is_loading & ~(around & (slices.parent >= 0)))
    inside = facts.in_steps(rows)
    rows = inside if len(inside) else rows
    return facts.longest(rows) if len(rows) else None


def _restarts(facts: Facts) -> bool:
    """Tell whether starting and ending workers takes much of the loader's time."""
    ledger = facts.ledger
    loading = ledger.spent_on(Cause.DATA_LOADING)
    about_workers = ledger.where_stack(
        lambda stack: any_in(
            (f for f in stack.frames if _ABOUT_WORKERS(f.function)), landmarks().loaders
        )
    )
    return ledger.each_ns(loading & about_workers) > MIN_RESTARTS * ledger.each_ns(loading)


def _in_its_thread(facts: Facts, loading_ns: int) -> tuple[Place, ...]:
    """Name the line at which a loader's thread spends most time; empty if none works long."""
    samples, ledger = facts.trace.samples, facts.ledger
    mine = np.unique(samples.track[ledger.row[ledger.row != NO_SAMPLE]])
    loads = [
        row for row, stack in ledger.stacks.items() if any_in(stack.frames, landmarks().loaders)
    ]
    rows = np.flatnonzero(
        ~np.isin(samples.track, mine)
        & np.isin(samples.stack, loads)
        & np.isin(samples.state, RUNNING_STATES)
        & facts.step_time.contain(samples.time_ns)
    )
    if samples.duration_ns[rows].sum() < MOST_IN_THREAD * loading_ns:
        return ()
    return hottest_path(facts, rows)


def _fix(facts: Facts, loader: str) -> str:
    prefix = facts.advise(Remedy.LOADER_PREFIX, "")
    if _restarts(facts):
        return (
            "Keep the workers from epoch to epoch: "
            f"{facts.loader_with(persistent_workers='True')}, or, with so little data, load it "
            f"without workers ({prefix}num_workers=0)."
        )
    if _WITH_WORKERS in loader:
        return (
            f"The loader's workers do not keep up: use more of them ({prefix}num_workers), let "
            f"them prefetch more batches ({prefix}prefetch_factor), or make reading an item "
            f"cheaper.{facts.advice_to_record_children}"
        )
    pinned = (
        {"pin_memory": "True"} if len(facts.work) and facts.advise(Remedy.PINNED_MEMORY, "") else {}
    )
    workers = max(int(min(facts.trace.info.parallelism.get("cores", _WORKERS), _WORKERS)), 1)
    call = facts.loader_with(num_workers=str(workers), persistent_workers="True", **pinned)
    return f"Load in the background: {call}, or prepare the data once and keep it."
