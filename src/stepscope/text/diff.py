"""A comparison as text for the terminal, and as Markdown for a pull request."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from stepscope.analysis.compare.model import GONE, NEW, SAME, Diff, DiffTable, Quantity, Row, signed
from stepscope.analysis.compare.side import Side
from stepscope.analysis.steps.unit import unit_words
from stepscope.text.layout import Column, cut, markdown, printable, text_lines
from stepscope.units import COUNT, count_text, duration_text

ROWS = 10
"""The default number of rows in each table."""

HEADINGS = ("before", "after", "difference", "of a step")
_FIGURES = 60  # the width of the columns beside the name
_NARROWEST_NAME = 24
_LEAST_SHARE = 0.001  # of a step: rows that changed less are summed


def diff_text(diff: Diff, row_limit: int = ROWS, width: int = 120) -> str:
    parts = ["\n".join(facts_lines(diff))]
    parts += [_table_text(table, diff, row_limit, width) for table in shown_tables(diff)]
    parts.append("\n".join(other_lines(diff)))
    return "\n\n".join(part for part in parts if part)


def facts_lines(diff: Diff) -> Iterator[str]:
    """Yield what was compared, and what the samples cannot show."""
    for word, side in (("before", diff.before), ("after", diff.after)):
        yield f"{word:<7}{side_words(side)}"
    step = diff.step
    if step.test.value != "none":
        yield (
            f"test   {step.test.value}, p = {step.p:.2g}; a change below "
            f"{step.least_effect:.0%} does not matter"
        )
    for remark in step.remarks:
        yield f"note   {remark}"


def side_words(side: Side) -> str:
    steps = sum(len(run.windows) for run in side.runs)
    names = ", ".join(run.label for run in side.runs[:2])
    more = f" and {len(side.runs) - 2} more" if len(side.runs) > 2 else ""
    return f"{names}{more}: {count_text(steps, side.unit)} in {count_text(len(side.runs), 'run')}"


def shown_tables(diff: Diff) -> list[DiffTable]:
    """Return the tables that do not repeat another one."""
    shown = []
    for table in diff.tables:
        if table.by == "operator" and not any(row.module for row in diff.rows):
            continue  # it repeats the table of all work
        if len(table.rows) > 1 or table.by == "work":
            shown.append(table)
    return shown


def shown_rows(table: DiffTable, row_limit: int) -> tuple[list[Row], list[Row]]:
    """Return the rows to show, and those that are summed up."""
    least = _LEAST_SHARE * max(table.before_ns, table.after_ns)
    worth = [row for row in table.rows if abs(row.difference_ns) >= least]
    shown = worth if row_limit < 0 else worth[:row_limit]
    shown_ids = {id(row) for row in shown}
    return shown, [row for row in table.rows if id(row) not in shown_ids]


def row_note(row: Row) -> str:
    notes = []
    if row.status in (NEW, GONE):
        notes.append(row.status)
    elif row.status != SAME:
        notes.append(f"{row.status}, was {_former(row)}")
    if row.comparison is not None:
        notes.append("real" if row.comparison.is_real else "noise")
    if abs(row.before_count - row.after_count) >= 0.05 and row.status not in (NEW, GONE):
        notes.append(f"{count_words(row.before_count)} to {count_words(row.after_count)} calls")
    return ", ".join(notes)


def _former(row: Row) -> str:
    """Return the former name of a row; for the work of a renamed module, the module's."""
    name, _, module = row.was.rpartition(" in ")
    now = row.what.rpartition(" in ")[0]
    return module if row.module and name and name == now else row.was


def count_words(count: float) -> str:
    return f"{count:,.0f}" if abs(count - round(count)) < 0.05 else f"{count:,.1f}"


class Line(NamedTuple):
    """A line of a table: a kind of work, the others together, or all."""

    what: str
    before_ns: int
    after_ns: int
    note: str = ""
    is_sum: bool = True

    def figures(self, diff: Diff) -> tuple[str, str, str, str]:
        """Return the times, their difference, and its share of a step before."""
        more = self.after_ns - self.before_ns
        times = duration_text(self.before_ns), duration_text(self.after_ns)
        return *times, signed(more), _share(more, diff.before_ns)


def shown_lines(table: DiffTable, row_limit: int, whole: str) -> list[Line]:
    """Return the lines of a table; the last is about the whole."""
    shown, rest = shown_rows(table, row_limit)
    lines = [Line(row.what, row.before_ns, row.after_ns, row_note(row), False) for row in shown]
    if rest:
        sums = sum(row.before_ns for row in rest), sum(row.after_ns for row in rest)
        lines.append(Line(count_text(len(rest), "other row"), *sums))
    return [*lines, Line(whole, table.before_ns, table.after_ns)]


def _table_text(table: DiffTable, diff: Diff, row_limit: int, width: int) -> str:
    lines = shown_lines(table, row_limit, f"all: {unit_words(diff.unit)}")
    figures = list(zip(*(line.figures(diff) for line in lines), strict=True))
    columns = [
        Column(table.title, [printable(line.what) for line in lines], is_text=True),
        *(Column(title, list(cells)) for title, cells in zip(HEADINGS, figures, strict=True)),
        Column("", [cut(line.note, 48) for line in lines], is_text=True),
    ]
    return "\n".join(text_lines(columns, max(width - _FIGURES, _NARROWEST_NAME)))


def _share(ns: float, of_ns: float) -> str:
    return f"{100 * ns / of_ns:+.1f}%" if of_ns else "-"


def other_lines(diff: Diff) -> Iterator[str]:
    for quantity in (*diff.memory, *diff.counts):
        if abs(quantity.difference) > 0.01 * max(abs(quantity.before), 1e-9):
            yield quantity_words(quantity, diff.unit)
    for word, findings in (("new", diff.findings_came), ("gone", diff.findings_went)):
        for finding in findings:
            yield f"{word} finding: {finding.title}. {finding.fix}"


def quantity_words(quantity: Quantity, unit: str) -> str:
    show = count_words if quantity.unit is COUNT else quantity.unit.text
    per_unit = f" a {unit}" if quantity.is_each_step and unit != "run" else ""
    return f"{quantity.what}{per_unit}: {show(quantity.before)} to {show(quantity.after)}"


def diff_markdown(diff: Diff, row_limit: int = ROWS) -> str:
    """Return the comparison for a pull request: the verdict, then tables that fold."""
    lines = [f"**{markdown(diff.verdict)}**", ""]
    lines += [f"- {markdown(' '.join(line.split()))}" for line in facts_lines(diff)]
    lines += [f"- {markdown(line)}" for line in other_lines(diff)]
    for i, table in enumerate(shown_tables(diff)):
        rows = _markdown_rows(table, diff, row_limit)
        if i == 0:
            lines += ["", *rows]
        else:
            title = f"<details><summary>{table.title}</summary>"
            lines += ["", title, "", *rows, "", "</details>"]
    return "\n".join(lines) + "\n"


def _markdown_rows(table: DiffTable, diff: Diff, row_limit: int) -> list[str]:
    lines = [f"| {table.title} | {' | '.join(HEADINGS)} | |", "|---|--:|--:|--:|--:|---|"]
    for line in shown_lines(table, row_limit, "**all**"):
        what = line.what if line.is_sum else f"`{_code(line.what)}`"
        lines.append(f"| {' | '.join((what, *line.figures(diff), markdown(line.note)))} |")
    return lines


def _code(text: str) -> str:
    return printable(text).replace("`", "'").replace("|", "\\|")
