"""What `stepscope mcp` offers: small answers about the traces of a folder, with their units."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from stepscope.analysis.answer import answer
from stepscope.analysis.compare.diff import diff_traces
from stepscope.cli.base.files import read
from stepscope.errors import StepscopeError
from stepscope.query.engine import run_sql
from stepscope.query.views import VIEWS
from stepscope.view.folder import Folder

if TYPE_CHECKING:
    from stepscope.analysis.compare.model import Diff, DiffTable, Quantity
    from stepscope.trace.model import Trace

_KEPT = 4  # traces that stay open
_MOST_ROWS = 500
_MOST_TRACES = 200
_LONGEST_TEXT = 300  # letters; the name of a kernel template can fill pages
_MOST_QUANTITIES = 20
_SIDE = 40  # runs of one side of a comparison
_UNITS = "keys ending in _ns are ns, in bytes bytes; shares and changes are fractions (0.1: 10 %)"
_FINDING = ("id", "title", "severity", "saves_ns", "file", "line")


class Tools:
    """The tools over one folder; nothing outside of it is opened."""

    def __init__(self, folder: Path) -> None:
        self._folder = Folder(folder)
        self._open: OrderedDict[tuple[str, int, int], Trace] = OrderedDict()

    def all(self) -> Sequence[Callable[..., dict[str, Any]]]:
        """Return the tools; name, arguments and docstring of each are what a client sees."""
        return (
            self.list_traces,
            self.summary,
            self.findings,
            self.diff,
            self.list_tables,
            self.sql,
            self.timeline,
        )

    def list_traces(self) -> dict[str, Any]:
        """List the traces of the folder, the newest first: name, size and when it was written."""
        listing = self._folder.listing()
        traces = [
            {"trace": listed.name, "bytes": listed.size, "written_unix_ns": listed.written_ns}
            for listed in listing.traces[:_MOST_TRACES]
        ]
        more = len(listing.traces) - len(traces)
        return {"traces": traces, "not_listed": more, "note": listing.left_out}

    def summary(self, trace: str) -> dict[str, Any]:
        """Say where the time of a trace goes: the verdict, its steps, the parts of a step.

        Times are in ns. `findings` has the problems themselves.
        """
        answered = answer(self._trace(trace)).to_json()
        problems = [{key: finding[key] for key in _FINDING} for finding in answered["findings"]]
        return {**answered, "findings": problems, "units": _UNITS}

    def findings(self, trace: str, limit: int = 5) -> dict[str, Any]:
        """Return the problems of a trace, the most expensive first: cost, line and fix."""
        problems = answer(self._trace(trace)).findings
        wanted = ("id", "title", "text", "severity", "share", "saves_ns", "of_ns", "unit", "fix")
        shown = [
            {key: finding.to_json()[key] for key in (*wanted, "places")}
            for finding in problems[: _bounded(limit)]
        ]
        return {"findings": shown, "not_shown": len(problems) - len(shown), "units": _UNITS}

    def diff(
        self, before: list[str], after: list[str], by: str = "work", limit: int = 10
    ) -> dict[str, Any]:
        """Compare two runs: is a step slower or faster, is that real, and what is it made of.

        `before` and `after` name one trace each, or several runs of each side, which tell a change
        of the program from one of the machine. Rows are per step, the largest change first, and add
        up to the change of a step; `by` sorts its time: work (module, operator and shapes), phase,
        module, operator, kernel or line.
        """
        rows = _bounded(limit)
        sides = self._side(before, "before"), self._side(after, "after")
        compared = diff_traces(*sides, labels=(before, after))
        try:
            table = compared.table(by)
        except KeyError as unknown:
            raise StepscopeError(unknown.args[0]) from None
        return _comparison(compared, table, rows)

    def list_tables(self) -> dict[str, Any]:
        """List the tables that `sql` can ask, with the meaning and unit of each column."""
        tables = {view.name: dict(view.columns) for view in VIEWS}
        return {"tables": tables, "note": "every table also has `trace`, the name of the trace"}

    def sql(self, traces: list[str], query: str, limit: int = 50) -> dict[str, Any]:
        """Run one SQL SELECT over some traces; `list_tables` has the tables and columns."""
        if "read_" in query.lower():
            raise StepscopeError("read_* functions are not served: ask the tables of the traces")
        if not traces:
            raise StepscopeError("traces is empty: name at least one that list_traces returned")
        result = run_sql({name: self._trace(name) for name in traces}, query)
        shown = result.head(_bounded(limit))
        columns = [{"name": name, "type": str(kind)} for name, kind in result.schema.items()]
        rows = [[_plain(value) for value in row] for row in shown.rows()]
        not_shown = len(result) - len(shown)
        return {"columns": columns, "rows": rows, "not_shown": not_shown, "units": _UNITS}

    def timeline(
        self,
        trace: str,
        from_ns: int = 0,
        to_ns: int | None = None,
        thread: str = "",
        limit: int = 50,
    ) -> dict[str, Any]:
        """Return the longest slices of a part of the timeline, in the order of their starts.

        `from_ns` and `to_ns` count from the start of the trace. `thread` picks threads and streams
        whose name contains it.
        """
        opened = self._trace(trace)
        slices, base = opened.slices, _beginning(opened)
        last = np.iinfo(np.int64).max if to_ns is None else base + to_ns
        inside = (slices.start_ns < last) & (slices.end_ns >= base + from_ns)
        if thread:
            named = [thread.lower() in _track_name(track).lower() for track in opened.tracks]
            inside &= np.array(named, np.bool_)[slices.track]
        rows = np.flatnonzero(inside)
        longest = rows[np.argsort(-slices.duration_ns[rows], kind="stable")[: _bounded(limit)]]
        shown = [
            {
                "name": _plain(opened.name_of(row)),
                "start_ns": int(slices.start_ns[row]) - base,
                "duration_ns": int(slices.duration_ns[row]),
                "depth": int(slices.depth[row]),
                "thread": _track_name(opened.tracks[int(slices.track[row])]),
            }
            for row in sorted(longest.tolist())
        ]
        return {"slices": shown, "not_shown": len(rows) - len(shown), "units": _UNITS}

    def _side(self, names: list[str], side: str) -> list[Trace]:
        if not 1 <= len(names) <= _SIDE:
            raise StepscopeError(
                f"{side} has {len(names)} traces: name 1 to {_SIDE} that list_traces returned"
            )
        return [self._trace(name) for name in names]

    def _trace(self, name: str) -> Trace:
        by_name = {listed.name: listed for listed in self._folder.listing().traces}
        listed = by_name.get(name)
        if listed is None:
            there = ", ".join(list(by_name)[:10]) or "none"
            raise StepscopeError(f"there is no trace {name!r} in the folder; there are: {there}")
        key = (listed.name, listed.size, listed.written_ns)
        if key not in self._open:
            self._open[key] = read(str(self._folder.root / listed.name))
            while len(self._open) > _KEPT:
                self._open.popitem(last=False)
        self._open.move_to_end(key)
        return self._open[key]


def _comparison(compared: Diff, table: DiffTable, limit: int) -> dict[str, Any]:
    shown, not_shown = table.rows[:limit], table.rows[limit:]
    rows = [{key: _plain(value) for key, value in row.to_json().items()} for row in shown]
    came, went = (
        [{key: finding.to_json()[key] for key in _FINDING} for finding in side]
        for side in (compared.findings_came, compared.findings_went)
    )
    return {
        "verdict": compared.verdict,
        "unit": compared.unit,
        "step": {**compared.step.to_json(), "unit": "ns"},
        "before_ns": compared.before_ns,
        "after_ns": compared.after_ns,
        "difference_ns": compared.difference_ns,
        "by": table.by,
        "rows": rows,
        "not_shown": len(not_shown),
        "not_shown_difference_ns": sum(row.difference_ns for row in not_shown),
        "tables": [other.by for other in compared.tables],
        "changed": _changed((*compared.memory, *compared.counts)),
        "findings_came": came,
        "findings_went": went,
        "units": _UNITS,
    }


def _changed(quantities: Sequence[Quantity]) -> list[dict[str, Any]]:
    """Return what is counted and differs, the largest change first."""
    differing = [quantity for quantity in quantities if quantity.difference]
    differing.sort(
        key=lambda quantity: -abs(quantity.difference) / max(quantity.before, quantity.after, 1e-9)
    )
    return [
        {**quantity.to_json(), "unit": quantity.unit.one or "a step"}
        for quantity in differing[:_MOST_QUANTITIES]
    ]


def _bounded(limit: int) -> int:
    if limit < 1:
        raise StepscopeError(f"limit={limit} is not a number of rows: use 1 to {_MOST_ROWS}")
    return min(limit, _MOST_ROWS)


def _beginning(trace: Trace) -> int:
    return int(trace.slices.start_ns.min()) if len(trace) else trace.info.start_ns


def _track_name(track: Any) -> str:
    return track.thread_name or f"{track.pid}/{track.tid}"


def _plain(value: object) -> object:
    if isinstance(value, int | float | bool) or value is None:
        return value
    text = str(value)
    cut = len(text) - _LONGEST_TEXT
    return text if cut <= 0 else f"{text[:_LONGEST_TEXT]}... ({cut} more letters)"
