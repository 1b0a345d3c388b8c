"""What the command line prints about a trace: a few facts, then the table."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import numpy as np

from stepscope.analysis.memory.timeline import memory_peak
from stepscope.analysis.memory.usage import devices
from stepscope.analysis.steps.phases import COMPILE_CATEGORY, phase_table, without_compilation
from stepscope.analysis.steps.steps import step_table
from stepscope.cli.device import device_facts
from stepscope.text.layout import printable
from stepscope.trace.model import DEVICE_KINDS, NO_SLICE, SliceKind
from stepscope.units import count_text, duration_text, size_text

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from rich.console import Console

    from stepscope.trace.model import Int64, Trace

Fact = tuple[str, str]

_UNBOUNDED_WIDTH = 10_000
_LABEL_WIDTH = 10
_LABEL_STYLE = "cyan"
_SEVERITY_STYLES = {"high": "bold red", "medium": "bold yellow", "low": "bold"}


def headline(trace: Trace) -> str:
    """Return a one-line summary of what was recorded."""
    window_ns = trace.info.end_ns - trace.info.start_ns
    return f"{count_text(len(trace), 'event')} on {_places(trace)} in {duration_text(window_ns)}"


def facts(trace: Trace) -> Iterator[Fact]:
    """Yield the facts that are shown above a trace's table."""
    info = trace.info
    if steps := _steps(trace):
        yield "steps", steps
    for phase in phase_table(trace):
        if phase.name == COMPILE_CATEGORY:
            times = count_text(phase.count, "time")
            yield "compile", f"{duration_text(phase.total_ns)}, {times}; not part of the steps"
    yield from device_facts(trace)
    yield from _peaks(trace)
    for name, says in info.sources.items():
        yield ("recorded", f"ranges; {says}") if name == "torch" else (name, says)
    window_ns = info.end_ns - info.start_ns
    if info.overhead_ns and window_ns > 0:
        cost_ns = len(trace) * info.overhead_ns
        share = cost_ns / window_ns
        yield (
            "overhead",
            f"about {duration_text(cost_ns)}, {share:.2%} of the time "
            f"({count_text(len(trace), 'event')} at {duration_text(info.overhead_ns)} each)",
        )
    if info.losses.events:
        yield "lost", _losses(trace)
    if info.anomalies:
        yield "anomalies", ", ".join(f"{what}: {n:,}" for what, n in info.anomalies.items())


def print_title(text: str) -> None:
    """Print a line that stands out on a terminal."""
    from rich.text import Text

    _console().print(Text(printable(text), style="bold"))


def show_facts(pairs: Iterable[Fact]) -> None:
    """Print labelled lines; on a terminal they are folded at its width."""
    from rich.table import Table
    from rich.text import Text

    grid = Table.grid(padding=(0, 2, 0, 0))
    grid.add_column(no_wrap=True, min_width=_LABEL_WIDTH)
    grid.add_column(overflow="fold")
    for label, text in pairs:
        grid.add_row(Text(f"  {printable(label)}", style=_LABEL_STYLE), Text(printable(text)))
    console = _console()
    with console.capture() as shown:
        console.print(grid)
    for line in shown.get().splitlines():
        print(line.rstrip())


def show_findings(trace: Trace, most: int | None, more: str = "") -> None:
    """Print at most ``most`` findings; ``more`` says how to see the others."""
    from rich.padding import Padding
    from rich.text import Text

    from stepscope.analysis.findings import find_problems

    if most == 0:
        return
    found = find_problems(trace)
    console = _console()
    print()
    if not found:
        show_facts([("findings", "no known problem found")])
    for number, finding in enumerate(found[:most], 1):
        style = _SEVERITY_STYLES[finding.severity.value]
        title = f"{number}. {finding.title} ({finding.severity.value})"
        lines = [(title, style), (finding.text, ""), (f"fix: {finding.fix}", _LABEL_STYLE)]
        for text, of in lines:
            inset = 2 if text == title else 5
            with console.capture() as shown:
                console.print(Padding(Text(printable(text), style=of), (0, 0, 0, inset)))
            print("\n".join(line.rstrip() for line in shown.get().splitlines()))
    if most is not None and len(found) > most:
        print(f"  {count_text(len(found) - most, 'finding')} more{more}")


def show_command(label: str, command: str) -> None:
    """Print a labelled command; it is never folded, so that it can be copied."""
    from rich.text import Text

    text = Text.assemble((f"  {label}".ljust(_LABEL_WIDTH), _LABEL_STYLE), f"  {command}")
    _console().print(text, soft_wrap=True)


def _console() -> Console:
    from rich.console import Console

    # When the output is no terminal, a line stays one line.
    return Console(width=None if sys.stdout.isatty() else _UNBOUNDED_WIDTH)


def _places(trace: Trace) -> str:
    slices = trace.slices
    tracks = np.unique(slices.track)
    streams = np.unique(slices.track[np.isin(slices.kind, DEVICE_KINDS)])
    threads = count_text(len(tracks) - len(streams), "thread")
    return f"{threads} and {count_text(len(streams), 'stream')}" if len(streams) else threads


def _steps(trace: Trace) -> str:
    steps = step_table(trace)
    times_ns = without_compilation(trace, steps.start_ns, steps.duration_ns)
    if not len(steps):
        return ""
    marked = bool((trace.slices.kind == SliceKind.STEP).any())
    if marked:
        return f"{len(steps):,}, as marked: {_times(times_ns)}"
    if len(steps) == 1:
        return f"1, ended by the optimizer: {duration_text(float(times_ns[0]))} including startup"
    # Where the first one began is unknown: it includes the imports.
    first = duration_text(float(times_ns[0]))
    return (
        f"{len(steps):,}, each ended by the optimizer: {_times(times_ns[1:])} "
        f"(excluding the first: {first} including startup)"
    )


def _peaks(trace: Trace) -> Iterator[Fact]:
    """Yield one line per device whose memory was recorded."""
    for device in devices(trace):
        found = memory_peak(trace, device)
        if found is not None:
            who = f" in {trace.name_of(found.slice)}" if found.slice != NO_SLICE else ""
            yield "memory", f"{device}: {size_text(found.bytes)} in use at the peak{who}"


def _times(times_ns: Int64) -> str:
    if len(times_ns) == 1:
        return duration_text(float(times_ns[0]))
    median, mean = float(np.median(times_ns)), float(np.mean(times_ns))
    return f"median {duration_text(median)}, mean {duration_text(mean)}"


def _losses(trace: Trace) -> str:
    losses = trace.info.losses
    limit = f" of {size_text(losses.limit_bytes)}" if losses.limit_bytes else ""
    which = f"the {losses.policy} " if losses.policy else ""
    return f"{which}{count_text(losses.events, 'event')}: the memory limit{limit} was reached"
