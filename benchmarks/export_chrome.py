"""Writing a trace: Chrome JSON beside torch.profiler's export, and the size of a saved trace."""

from __future__ import annotations

import functools
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from common import timed_s
from rows import Row, faster_row, megabytes, share_row

import stepscope

if TYPE_CHECKING:
    from collections.abc import Callable

EVENTS = 500_000


def recorded(profiler: Any, work: Callable[[], object]) -> Any:
    """Return the profiler after it has seen the work."""
    with profiler:
        work()
    return profiler


def additions(events: int) -> Callable[[], object]:
    """Return work of so many operators."""
    one = torch.ones(1)

    def work() -> None:
        for _ in range(events):
            torch.add(one, one)

    return work


def training(events: int) -> Callable[[], object]:
    """Return a training loop of about so many operators, whose durations vary as real ones do."""
    layers = [layer for _ in range(4) for layer in (torch.nn.Linear(64, 64), torch.nn.ReLU())]
    model = torch.nn.Sequential(*layers, torch.nn.Linear(64, 1))
    optimizer = torch.optim.Adam(model.parameters())
    inputs = torch.randn(32, 64)

    def work() -> None:
        for _ in range(max(1, events // 540)):
            model(inputs).square().mean().backward()
            optimizer.step()
            optimizer.zero_grad()

    return work


def export_row(suffix: str, bar: float, events: int, folder: Path, rounds: int) -> Row:
    """Time both exports in turn, ours at its best of three."""
    work = additions(events)
    cpu = [torch.profiler.ProfilerActivity.CPU]
    ours, theirs = [], []
    target = folder / f"ours{suffix}"
    mine = recorded(stepscope.profile(), work)
    for _ in range(rounds):
        other = recorded(torch.profiler.profile(activities=cpu), work)  # it exports only once
        path = str(folder / f"theirs{suffix}")
        theirs.append(timed_s(functools.partial(other.export_chrome_trace, path)))
        del other
        ours.append(min(timed_s(lambda: mine.export_chrome_trace(target)) for _ in range(3)))
    what = f"export_chrome_trace to {suffix}, {events // 1000}k events"
    return faster_row(what, ours, theirs, "torch.profiler", bar)


def saved_size_row(events: int, folder: Path) -> Row:
    """Compare a saved trace with the plain JSON of the same trace."""
    trace = recorded(stepscope.profile(), training(events)).trace
    stepscope.export_trace(trace, folder / "plain.json")
    trace.save(folder / "trace.stepscope")
    saved = sum(file.stat().st_size for file in (folder / "trace.stepscope").iterdir())
    plain = (folder / "plain.json").stat().st_size
    what = f"a saved trace, {len(trace) // 1000}k events"
    return share_row(what, [saved], [plain], "its plain JSON", 1 / 12, show=megabytes)


def rows(quick: bool = False) -> list[Row]:
    """Measure both exports and the saved size."""
    events = EVENTS // 10 if quick else EVENTS
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        return [
            export_row(".json", 2, events, folder, rounds=3),
            export_row(".json.gz", 15, events, folder, rounds=2),
            saved_size_row(events, folder),
        ]
