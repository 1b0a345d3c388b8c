"""torch.compile: recompilations and graph breaks."""

from __future__ import annotations

import numpy as np

from stepscope.analysis.base.intervals import union
from stepscope.analysis.code.sampled_stacks import NO_SAMPLE
from stepscope.analysis.findings.facts import Facts, moment
from stepscope.analysis.findings.launched import lines_of_operators
from stepscope.analysis.findings.model import DETECTORS, MEDIUM_SHARE, Finding, Severity
from stepscope.analysis.findings.spots import hot_spot, saving, share_words, source_line
from stepscope.analysis.steps import compilation
from stepscope.analysis.steps.causes import Cause
from stepscope.analysis.steps.ledger import Ledger, ledger_with_startup
from stepscope.trace.model import Bool
from stepscope.trace.names import COMPILED_BACKWARD, GRAPH_BREAK
from stepscope.units import count_text, duration_text

# A second compilation means that a region met inputs that the first does not cover.
MIN_RECOMPILATIONS = 1
STRETCHES = 10  # a run without steps that compiles in all ten of its stretches does so all along

_NAMED_PLACES = 3


@DETECTORS.register
def recompilations(facts: Facts) -> Finding | None:
    """Find regions that were recompiled because their inputs changed."""
    again = compilation.recompilations(facts.trace)
    if len(again) < MIN_RECOMPILATIONS:
        return None
    slices = facts.trace.slices
    spent = union(slices.start_ns[again], slices.ends_of(again))
    # Compared with all steps that count, which exclude those that compile if others exist.
    steps = facts.step_time
    whole_ns = steps.total_ns + spent.total_ns - spent.shared_with(steps).total_ns
    share = spent.total_ns / whole_ns if whole_ns else 1.0
    row = facts.longest(again)
    names = [facts.trace.name_of(int(i)).partition(": ")[2] for i in again]
    regions = sorted({name.removesuffix(COMPILED_BACKWARD) for name in names} - {""})
    called = again[[not name.endswith(COMPILED_BACKWARD) for name in names]]
    return Finding(
        id="recompilations",
        title=f"torch.compile recompiled {count_text(len(again), 'time')}",
        text=f"{_listed(regions)}: recompiled because shapes, types or values differed from those "
        f"of earlier compilations. This took {duration_text(spent.total_ns)}, "
        f"{share:.0%} of the time of all steps.",
        share=share,
        evidence=facts.on_timeline(row, "torch.compile"),
        fix='TORCH_LOGS="recompiles" shows the reasons. Keep shapes constant (drop_last=True, '
        "padding), or mark what changes: torch.compile(dynamic=True), torch._dynamo.mark_dynamic.",
        severity=Severity.of_share(share),
        saves_ns=spent.total_ns / max(facts.steps, 1),
        of_ns=whole_ns / max(facts.steps, 1),
        places=lines_of_operators(facts, called if len(called) else again),
    )


@DETECTORS.register
def compiling_again(facts: Facts) -> Finding | None:
    """Find a loop that compiles all the time: a new function, or new shapes, in every step."""
    if len(compilation.recompilations(facts.trace)):
        return None
    spent = ledger_with_startup(facts.trace)
    spent = spent.take(~spent.spent_on(Cause.IMPORT) & (spent.row != NO_SAMPLE))
    which = spent.spent_on(Cause.COMPILE)
    spot = hot_spot(spent, which)
    if spot is None or not _all_along(facts, spent, spot.which):
        return None
    saves_ns = spent.each_ns(which)
    share = saves_ns / spent.unit_ns
    if share < MEDIUM_SHARE:
        return None
    return Finding(
        id="recompilations",
        title=f"Compiling takes {share_words(share, spent.unit)}: {spot.words}",
        text=f"The loop compiles again and again{spot.called_from}: nothing that was compiled is "
        f"reused.{saving(saves_ns, spent.unit, spent.unit_ns)}",
        share=share,
        evidence=source_line(spot.place),
        fix="Compile once before the loop and call the result: a function that is created again "
        "in each step, or called with other shapes, is compiled again.",
        severity=Severity.of_share(share),
        saves_ns=saves_ns,
        of_ns=spent.unit_ns,
        unit=spent.unit,
        places=spot.places,
    )


def _all_along(facts: Facts, spent: Ledger, which: Bool) -> bool:
    """Tell whether something happens in most steps, or all over a run without steps."""
    if spent.unit != "run":
        return spent.in_most_steps(which)
    time_ns = facts.trace.samples.time_ns[spent.row]
    order = np.argsort(time_ns, kind="stable")
    times = int((np.diff(which[order].astype(np.int8)) == 1).sum())
    begin, end = int(time_ns[which].min()), int(time_ns.max()) + 1
    stretches = (time_ns[which] - begin) * STRETCHES // (end - begin)
    return times >= STRETCHES and len(np.unique(stretches)) == STRETCHES


@DETECTORS.register
def graph_breaks(facts: Facts) -> Finding | None:
    """Find places where torch.compile gave up and fell back to Python."""
    rows = compilation.graph_breaks(facts.trace)
    if not len(rows):
        return None
    slices = facts.trace.slices
    places = sorted({facts.trace.name_of(int(i)).removeprefix(GRAPH_BREAK) for i in rows})
    return Finding(
        id="graph-breaks",
        title=f"torch.compile breaks the graph at {count_text(len(places), 'place')}",
        text=f"{_listed(places)}. Each break ends a graph: the code after it is compiled "
        "separately, nothing is fused across it, and every call returns to Python there.",
        share=0.0,
        evidence=moment(
            int(slices.start_ns[rows[0]]), int(slices.ends_of(rows).max()), GRAPH_BREAK.rstrip()
        ),
        fix="Move printing, .item() and calls to other libraries out of the compiled function; "
        "torch.compile(fullgraph=True) turns a break into an error that says why.",
        severity=Severity.LOW,
    )


def _listed(texts: list[str]) -> str:
    texts = [text for text in texts if text] or ["a function"]
    more = f" and {len(texts) - _NAMED_PLACES} more" if len(texts) > _NAMED_PLACES else ""
    return ", ".join(texts[:_NAMED_PLACES]) + more
