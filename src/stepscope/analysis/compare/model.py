"""What a comparison found: the verdict, and tables whose rows add up to the change of a step."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from stepscope.analysis.steps.unit import unit_words
from stepscope.registry import Registry
from stepscope.units import COUNT, Unit, duration_text

if TYPE_CHECKING:
    from collections.abc import Callable

    from stepscope.analysis.compare.side import Side
    from stepscope.analysis.compare.statistics import Comparison
    from stepscope.analysis.findings import Finding

SAME, NEW, GONE, RENAMED, MOVED = "same", "new", "gone", "renamed", "moved"


@dataclass(frozen=True, slots=True)
class Row:
    """A kind of work in a usual step, before and after."""

    what: str  # the name after the change; that before for work that is gone
    before_ns: int
    after_ns: int
    before_count: float = 0.0  # calls in a step; 0 if that makes no sense
    after_count: float = 0.0
    status: str = SAME
    was: str = ""  # the former name, if different
    kind: str = ""  # operator, device, python, range, idle, runtime
    module: str = ""
    name: str = ""
    shapes: str = ""
    error_ns: float = 0.0  # standard error of the difference, where samples tell the time
    comparison: Comparison | None = field(default=None, repr=False)

    @property
    def difference_ns(self) -> int:
        return self.after_ns - self.before_ns

    @property
    def certain_ns(self) -> float:
        """Return by how much the difference exceeds the sampling error."""
        return max(abs(self.difference_ns) - self.error_ns, 0.0)

    def to_json(self) -> dict[str, Any]:
        values: dict[str, Any] = {
            "what": self.what,
            "before_ns": self.before_ns,
            "after_ns": self.after_ns,
            "difference_ns": self.difference_ns,
            "before_count": self.before_count,
            "after_count": self.after_count,
            "status": self.status,
        }
        for name in ("was", "kind", "module", "shapes"):
            if getattr(self, name):
                values[name] = getattr(self, name)
        if self.error_ns:
            values["sampling_error_ns"] = round(self.error_ns)
        if self.comparison is not None:
            values["is_real"] = self.comparison.is_real
            values["p"] = self.comparison.p
        return values


@dataclass(frozen=True, slots=True)
class DiffTable:
    """One way to sort the time of a step; its rows add up to it on both sides, to the ns."""

    by: str  # work, phase, module, operator, kernel, line
    title: str
    rows: tuple[Row, ...]  # the largest change first

    @property
    def before_ns(self) -> int:
        return sum(row.before_ns for row in self.rows)

    @property
    def after_ns(self) -> int:
        return sum(row.after_ns for row in self.rows)

    @property
    def difference_ns(self) -> int:
        """Return the sum of the rows' differences."""
        return sum(row.difference_ns for row in self.rows)

    def to_json(self) -> dict[str, Any]:
        return {
            "by": self.by,
            "title": self.title,
            "before_ns": self.before_ns,
            "after_ns": self.after_ns,
            "difference_ns": self.difference_ns,
            "rows": [row.to_json() for row in self.rows],
        }


@dataclass(frozen=True, slots=True)
class Quantity:
    """Something that is counted rather than timed: events in a step, the peak of memory."""

    what: str
    before: float
    after: float
    unit: Unit = COUNT
    is_each_step: bool = True  # whether it is of a step, rather than of the whole run

    @property
    def difference(self) -> float:
        return self.after - self.before

    def to_json(self) -> dict[str, Any]:
        return {
            "what": self.what,
            "before": self.before,
            "after": self.after,
            "difference": self.difference,
            "unit": self.unit.one,
        }


@dataclass(frozen=True, slots=True)
class Diff:
    """How two sides, before and after, differ.

    ``step`` compares the steps as samples; ``before_ns`` and ``after_ns`` are the usual step of
    each side, which the rows of every table add up to.
    """

    before: Side = field(repr=False)
    after: Side = field(repr=False)
    step: Comparison
    tables: tuple[DiffTable, ...] = field(repr=False)
    memory: tuple[Quantity, ...] = field(repr=False)
    counts: tuple[Quantity, ...] = field(repr=False)
    findings_came: tuple[Finding, ...] = field(repr=False)
    findings_went: tuple[Finding, ...] = field(repr=False)

    @property
    def unit(self) -> str:
        """Return the word for what is compared: step, request or run."""
        return self.after.unit

    @property
    def before_ns(self) -> int:
        return self.before.step_ns

    @property
    def after_ns(self) -> int:
        return self.after.step_ns

    @property
    def difference_ns(self) -> int:
        """Return how much longer the usual step takes; each table's differences add up to it."""
        return self.after_ns - self.before_ns

    @property
    def rows(self) -> tuple[Row, ...]:
        """Return the changes by work, the largest first."""
        return self.tables[0].rows

    def table(self, by: str) -> DiffTable:
        """Return the table for work, phase, module, operator, kernel or line."""
        for table in self.tables:
            if table.by == by:
                return table
        names = ", ".join(table.by for table in self.tables)
        raise KeyError(f"there is no table by {by!r}: this comparison has {names}")

    @property
    def guilty(self) -> Row | None:
        """Return the row that explains most of the change; None if nothing changed."""
        sign = 1 if self.difference_ns >= 0 else -1
        return next((row for row in self.rows if row.difference_ns * sign > 0), None)

    @property
    def verdict(self) -> str:
        """Return the answer in one or two sentences."""
        return _verdict(self)

    def to_json(self) -> dict[str, Any]:
        """Return it as JSON-compatible values."""
        return {
            "verdict": self.verdict,
            "unit": self.unit,
            "step": self.step.to_json(),
            "before": _side_json(self.before),
            "after": _side_json(self.after),
            "before_ns": self.before_ns,
            "after_ns": self.after_ns,
            "difference_ns": self.difference_ns,
            "tables": [table.to_json() for table in self.tables],
            "memory": [quantity.to_json() for quantity in self.memory],
            "counts": [quantity.to_json() for quantity in self.counts],
            "findings": {
                "came": [finding.to_json() for finding in self.findings_came],
                "went": [finding.to_json() for finding in self.findings_went],
            },
        }

    def __str__(self) -> str:
        return self.verdict

    def _repr_html_(self) -> str:
        return "".join(show(self) for show in NOTEBOOK)


def _side_json(side: Side) -> dict[str, Any]:
    return {
        "runs": [run.label for run in side.runs],
        "unit": side.unit,
        "how": side.how,
        "steps": sum(len(run.windows) for run in side.runs),
        "step_ns": side.step_ns,
        "usual_steps": side.chosen,
    }


def _verdict(diff: Diff) -> str:
    step, unit = diff.step, diff.unit
    before, after = duration_text(step.before), duration_text(step.after)
    times = f"from {before} to {after}, {step.change:+.1%}"
    if step.test.value != "none":
        times += f" (95 % interval {step.low * 100:+.1f} to {step.high * 100:+.1f})"
    opening = _OPENINGS[step.verdict.value].format(unit_words(unit))
    return f"{opening[0].upper()}{opening[1:]} {times}.{_guilt(diff)}"


_OPENINGS = {
    "slower": "{} has become slower:",
    "faster": "{} has become faster:",
    "same": "{} takes as long as before:",
    "noise": "no real change, only noise: {} goes",
    "unknown": "too little was measured to tell whether {} has changed: it goes",
}


def _guilt(diff: Diff) -> str:
    row = diff.guilty
    if row is None or not diff.step.is_real:
        return ""
    suffix = {NEW: " (new)", GONE: " (gone)"}.get(row.status, "")
    return f" Most of it is {row.what}{suffix}: {signed(row.difference_ns)} a {diff.unit}."


def signed(ns: float) -> str:
    """Return a difference of times with its sign."""
    return ("+" if ns > 0 else "-" if ns < 0 else "±") + duration_text(abs(ns))


# Functions that render a comparison for a notebook; the report adds one.
NOTEBOOK: Registry[Callable[[Diff], str]] = Registry()
