"""Writing a trace: Chrome JSON beside torch.profiler's export, and the size of a saved trace."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from common import Row, seconds, timed_ns

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
    """Time both exports in turn and compare the best of each."""
    work = additions(events)
    cpu = [torch.profiler.ProfilerActivity.CPU]
    ours = theirs = float("inf")
    mine = recorded(stepscope.profile(), work)
    for _ in range(rounds):
        other = recorded(torch.profiler.profile(activities=cpu), work)  # it exports only once
        path = str(folder / f"theirs{suffix}")
        theirs = min(theirs, timed_ns(lambda p=other, to=path: p.export_chrome_trace(to)) * 1e-9)
        del other
        for _ in range(3):
            target = folder / f"ours{suffix}"
            ours = min(ours, timed_ns(lambda to=target: mine.export_chrome_trace(to)) * 1e-9)
    ratio = theirs / ours
    return Row(
        f"export_chrome_trace to {suffix}, {events // 1000}k events",
        seconds(ours),
        f"torch.profiler {seconds(theirs)}",
        f"{ratio:.1f} × faster",
        f"≥ {bar:g} ×",
        ratio >= bar,
    )


def saved_size_row(events: int, folder: Path) -> Row:
    """Compare a saved trace with the plain JSON of the same trace."""
    trace = recorded(stepscope.profile(), training(events)).trace
    stepscope.export_trace(trace, folder / "plain.json")
    trace.save(folder / "trace.stepscope")
    saved = sum(file.stat().st_size for file in (folder / "trace.stepscope").iterdir())
    plain = (folder / "plain.json").stat().st_size
    ratio = plain / saved
    return Row(
        f"a saved trace, {len(trace) // 1000}k events",
        f"{saved / 1e6:.1f} MB",
        f"its plain JSON {plain / 1e6:.0f} MB",
        f"1/{ratio:.0f}",
        "≤ 1/12",
        ratio >= 12,
    )


def rows(events: int = EVENTS) -> list[Row]:
    """Measure both exports and the saved size."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        return [
            export_row(".json", 2, events, folder, rounds=3),
            export_row(".json.gz", 15, events, folder, rounds=1),
            saved_size_row(events, folder),
        ]


if __name__ == "__main__":
    for row in rows():
        print(row)
