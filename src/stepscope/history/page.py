"""A history as one HTML file: a chart a metric, drawn as SVG. It needs no script and no network."""

from __future__ import annotations

import html
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from stepscope.history.changes import Change, History
from stepscope.history.runs import Metric, Run
from stepscope.history.text import verdict, when

_WIDTH, _HEIGHT = 960, 240
_LEFT, _RIGHT, _TOP, _BOTTOM = 84, 16, 16, 56
_TICKS = 4
_LABELS = 12  # labels below a chart, at most
_STYLE = """
:root { color-scheme: light dark; --ink: #1d2330; --soft: #6b7385; --line: #d9dde6; --back: #fff;
  --run: #3c6fd6; --worse: #c8372d; --better: #23874b; }
@media (prefers-color-scheme: dark) { :root { --ink: #e4e8f0; --soft: #98a1b3; --line: #363d4b;
  --back: #161a22; --run: #7ba4f5; --worse: #f0776c; --better: #5fc98a; } }
body { margin: 2rem auto; max-width: 62rem; padding: 0 1rem; background: var(--back);
  color: var(--ink); font: 15px/1.45 system-ui, sans-serif; }
h1 { font-size: 1.35rem; } h2 { font-size: 1.1rem; margin: 1.8rem 0 .4rem; }
svg { width: 100%; height: auto; } text { fill: var(--soft); font-size: 11px; }
.grid { stroke: var(--line); } .run { fill: var(--run); }
.level { stroke: var(--ink); stroke-width: 1.5; fill: none; }
.worse { stroke: var(--worse); fill: var(--worse); } .better { stroke: var(--better);
  fill: var(--better); } .cut { stroke-dasharray: 4 3; } text.worse, text.better { stroke: none; }
li.worse { color: var(--worse); } li.better { color: var(--better); }
li.worse, li.better { stroke: none; fill: none; }
table { border-collapse: collapse; width: 100%; font-variant-numeric: tabular-nums; }
th, td { text-align: right; padding: .2rem .6rem; border-bottom: 1px solid var(--line); }
th:first-child, td:first-child, th:nth-child(2), td:nth-child(2), th:nth-child(3),
td:nth-child(3) { text-align: left; } code { font-size: .92em; } .soft { color: var(--soft); }
"""


def history_html(histories: Sequence[History], title: str) -> str:
    body = "".join(part for history in histories for part in _section(history))
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        '<meta http-equiv="Content-Security-Policy" content="default-src \'none\'; '
        "style-src 'unsafe-inline'\">"
        f"<title>{_safe(title)}</title><style>{_STYLE}</style></head><body>"
        f"<h1>{_safe(title)}</h1>{body}</body></html>\n"
    )


def _section(history: History) -> Iterator[str]:
    yield f"<section><p>{_safe(verdict(history))}</p>"
    if history.changes:
        items = "".join(
            f'<li class="{_class(change)}">{"worse" if change.is_worse else "better"}: '
            f"{_safe(change.words)}</li>"
            for change in history.changes
        )
        yield f"<ul>{items}</ul>"
    for metric in history.metrics:
        yield f"<h2>{_safe(metric.words)}</h2>{_chart(history, metric)}"
    yield f"<h2>runs</h2>{_table(history)}"
    yield f'<p class="soft">Runs are {_safe(history.order)}. A + says that files were changed '
    yield "since the commit.</p></section>"


@dataclass(frozen=True, slots=True)
class _Scale:
    """Maps a run's index and a value to a point of the chart."""

    count: int
    low: float
    high: float

    def x(self, place: float) -> float:
        width = _WIDTH - _LEFT - _RIGHT
        return _LEFT + width * (place + 0.5) / max(self.count, 1)

    def y(self, value: float) -> float:
        height = _HEIGHT - _TOP - _BOTTOM
        share = (value - self.low) / (self.high - self.low)
        return _TOP + height * (1 - share)


def _chart(history: History, metric: Metric) -> str:
    runs = history.runs
    points = [
        (i, run.values[metric.name]) for i, run in enumerate(runs) if metric.name in run.values
    ]
    values = [value for _, value in points]
    low, high = min(values), max(values)
    # A small change fills no chart: at least a fifth of the largest value is shown.
    room = max(high - low, 0.2 * high, 1e-9)
    low = max(low - 0.15 * room, 0.0) if low >= 0 else low
    scale = _Scale(len(runs), low, max(high + 0.15 * room, low + room))
    changes = [change for change in history.changes if change.metric == metric]
    parts = [
        *_axes(scale, metric),
        *_levels(scale, points, changes),
        *_cuts(scale, changes),
        *(_dot(scale, i, value, runs[i], metric) for i, value in points),
        *_labels(scale, runs),
    ]
    label = f"{metric.words} of {len(points)} runs"
    return (
        f'<svg viewBox="0 0 {_WIDTH} {_HEIGHT}" role="img" aria-label="{_safe(label)}">'
        f"{''.join(parts)}</svg>"
    )


def _axes(scale: _Scale, metric: Metric) -> Iterator[str]:
    for value in np.linspace(scale.low, scale.high, _TICKS + 1).tolist():
        y = scale.y(value)
        yield f'<line class="grid" x1="{_LEFT}" x2="{_WIDTH - _RIGHT}" y1="{y:.1f}" y2="{y:.1f}"/>'
        text = _safe(metric.unit.text(value))
        yield f'<text x="{_LEFT - 8}" y="{y + 4:.1f}" text-anchor="end">{text}</text>'


def _levels(
    scale: _Scale, points: Sequence[tuple[int, float]], changes: Sequence[Change]
) -> Iterator[str]:
    """Yield the median line between each two changes."""
    bounds = [-1, *(change.at for change in changes), points[-1][0] + 1]
    for begin, end in pairwise(bounds):
        mine = [(i, value) for i, value in points if begin <= i < end]
        if mine:
            y = scale.y(float(np.median([value for _, value in mine])))
            x1, x2 = scale.x(mine[0][0] - 0.4), scale.x(mine[-1][0] + 0.4)
            yield f'<line class="level" x1="{x1:.1f}" x2="{x2:.1f}" y1="{y:.1f}" y2="{y:.1f}"/>'


def _cuts(scale: _Scale, changes: Sequence[Change]) -> Iterator[str]:
    for change in changes:
        x, kind = scale.x(change.at - 0.5), _class(change)
        yield (
            f'<g><title>{_safe(change.words)}</title><line class="cut {kind}" x1="{x:.1f}" '
            f'x2="{x:.1f}" y1="{_TOP}" y2="{_HEIGHT - _BOTTOM}"/>'
            f'<text class="{kind}" x="{x + 4:.1f}" y="{_TOP + 10}">{change.change:+.1%}</text></g>'
        )


def _dot(scale: _Scale, place: int, value: float, run: Run, metric: Metric) -> str:
    title = f"{run.label}: {metric.unit.text(value)}\n{run.branch} {when(run)}\n{run.name}"
    x, y = scale.x(place), scale.y(value)
    return (
        f'<circle class="run" cx="{x:.1f}" cy="{y:.1f}" r="3.5"><title>{_safe(title)}</title>'
        "</circle>"
    )


def _labels(scale: _Scale, runs: Sequence[Run]) -> Iterator[str]:
    """Yield the commits below the chart, as many as fit, each once."""
    firsts = [i for i, run in enumerate(runs) if i == 0 or run.label != runs[i - 1].label]
    every = -(-len(firsts) // _LABELS)
    for i in firsts[::every]:
        x, y = scale.x(i), _HEIGHT - _BOTTOM + 14
        short = runs[i].label[:11]
        yield (
            f'<text x="{x:.1f}" y="{y}" text-anchor="end" '
            f'transform="rotate(-30 {x:.1f} {y})">{_safe(short)}</text>'
        )


def _table(history: History) -> str:
    metrics = history.metrics
    heads = ("commit", "branch", "recorded (UTC)", "steps", *(metric.words for metric in metrics))
    head = "".join(f"<th>{_safe(heading)}</th>" for heading in heads)
    rows = []
    for run in reversed(history.runs):
        cells = [
            f'<td title="{_safe(run.commit)}"><code>{_safe(run.label)}</code></td>',
            *(f"<td>{_safe(text)}</td>" for text in (run.branch, when(run), f"{run.steps:,}")),
        ]
        for metric in metrics:
            value = run.values.get(metric.name)
            cells.append(f"<td>{'-' if value is None else _safe(metric.unit.text(value))}</td>")
        rows.append(f'<tr title="{_safe(run.name)}">{"".join(cells)}</tr>')
    return f"<table><tr>{head}</tr>{''.join(rows)}</table>"


def _class(change: Change) -> str:
    return "worse" if change.is_worse else "better"


def _safe(text: str) -> str:
    # Lone surrogates cannot be written, and HTML forbids control characters.
    plain = "".join(
        c if c.isprintable() or c == "\n" else "\N{REPLACEMENT CHARACTER}" for c in text
    )
    return html.escape(plain)
