"""Where the numbers of a program's runs changed, and between which commits."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from stepscope.analysis.compare.change_points import change_points
from stepscope.analysis.compare.statistics import compare_samples
from stepscope.history.runs import METRICS, Metric, Run

_STEP_TIME = "step_time"


@dataclass(frozen=True, slots=True)
class Change:
    """A lasting change of a metric between two runs."""

    metric: Metric
    last: Run  # the last run before the change
    first: Run  # the first run after the change
    at: int  # the index of ``first`` among all runs
    before: float
    after: float
    p: float

    @property
    def change(self) -> float:
        """Return the relative change: 0.05 is 5 % more."""
        return self.after / self.before - 1 if self.before else 0.0

    @property
    def is_worse(self) -> bool:
        """Tell whether this is to be looked at."""
        return (self.after > self.before) != self.metric.more_is_better

    @property
    def words(self) -> str:
        show = self.metric.unit.text
        where = f"at {self.first.label}"
        if self.first.commit != self.last.commit:
            where = f"between {self.last.label} and {self.first.label}"
        return (
            f"{self.metric.words} from {show(self.before)} to {show(self.after)} "
            f"({self.change:+.1%}) {where}"
        )

    def to_json(self) -> dict[str, Any]:
        return {
            "metric": self.metric.name,
            "before": self.before,
            "after": self.after,
            "change": self.change,
            "is_worse": self.is_worse,
            "p": self.p,
            "last_before": {"commit": self.last.commit, "trace": self.last.name},
            "first_after": {"commit": self.first.commit, "trace": self.first.name},
        }


@dataclass(frozen=True, slots=True)
class History:
    """The runs of one program in order, and the changes."""

    program: str
    runs: tuple[Run, ...]
    order: str
    changes: tuple[Change, ...]

    @property
    def metrics(self) -> tuple[Metric, ...]:
        return tuple(
            metric for metric in METRICS if any(metric.name in run.values for run in self.runs)
        )

    def to_json(self) -> dict[str, Any]:
        return {
            "program": self.program,
            "order": self.order,
            "runs": [
                {
                    "trace": run.name,
                    "commit": run.commit,
                    "branch": run.branch,
                    "changed": run.changed,
                    "host": run.host,
                    "began_ns": run.began_ns,
                    "steps": run.steps,
                    **run.values,
                }
                for run in self.runs
            ],
            "changes": [change.to_json() for change in self.changes],
        }


def history_of(program: str, runs: Sequence[Run], order: str) -> History:
    """Find changes in the ordered runs of a program."""
    changes = [change for metric in METRICS for change in _changes(metric, runs)]
    changes.sort(key=lambda change: (change.at, METRICS.index(change.metric)))
    return History(program, tuple(runs), order, tuple(changes))


def _changes(metric: Metric, runs: Sequence[Run]) -> Iterator[Change]:
    places = [i for i, run in enumerate(runs) if metric.name in run.values]
    points = change_points([runs[i].values[metric.name] for i in places])
    bounds = [0, *(point.at for point in points), len(places)]
    for number, point in enumerate(points):
        before = [runs[i] for i in places[bounds[number] : bounds[number + 1]]]
        after = [runs[i] for i in places[bounds[number + 1] : bounds[number + 2]]]
        if metric.name == _STEP_TIME and not _confirmed(before, after):
            continue
        yield Change(
            metric, before[-1], after[0], places[point.at], point.before, point.after, point.p
        )


def _confirmed(before: Sequence[Run], after: Sequence[Run]) -> bool:
    """Tell whether comparing the runs' steps confirms a change."""
    sides = [[run.step_ns for run in side] for side in (before, after)]
    return compare_samples(*sides).is_real
