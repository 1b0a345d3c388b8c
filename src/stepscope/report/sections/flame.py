"""Flame graphs: calls merged by their callers, and by the Python stacks they started in."""

from __future__ import annotations

import numpy as np

from stepscope.analysis.base.tree import call_tree
from stepscope.analysis.code.stacks import stack_of_events
from stepscope.analysis.host.averages import single_events
from stepscope.analysis.host.flame import flame_graph
from stepscope.analysis.host.flame_merge import FlameGraph
from stepscope.analysis.host.sampled_flame import sampled_flame_graph
from stepscope.report.base.payload import Payload, add_texts
from stepscope.report.base.steady import steady_time
from stepscope.trace.model import SliceKind, Trace


def add_flame(trace: Trace, payload: Payload) -> None:
    """Add ``flame.calls``, ``flame.stacks`` where operators have stacks, ``flame.samples``.

    A graph is the columns ``up`` (how many rows above the caller stands, 0 for the root), ``text``
    and ``kind``. What its nodes hold themselves are ``cells``: one per node, thread, and whether
    the thread waited, with a column per metric, and with one of what lies in the steady steps.
    """
    views = []
    steps = steady_time(trace)
    if len(trace.samples):
        _add(payload, "flame.samples", sampled_flame_graph(trace, steps=steps))
        views.append("samples")
    tree = call_tree(trace)
    events = single_events(tree)
    stacks = stack_of_events(tree, by_calls=True)
    if stacks is not None:
        _add(payload, "flame.stacks", flame_graph(tree, events, stacks, steps=steps))
        views.append("stacks")
    if (trace.slices.kind == SliceKind.MODULE).any():
        # Tables do not count modules as events, but a flame graph shows them as callers.
        tree = call_tree(trace, modules=True)
        events = single_events(tree)
    _add(payload, "flame.calls", flame_graph(tree, events, steps=steps))
    payload.add_value("flame.views", [*views, "calls"])


def _add(payload: Payload, name: str, graph: FlameGraph) -> None:
    payload.add_value(f"{name}.metrics", list(graph.own))
    payload.add_value(f"{name}.merged", graph.merged)
    payload.add_column(f"{name}.up", np.arange(len(graph)) - graph.parent)
    used, text = np.unique(graph.text, return_inverse=True)
    payload.add_column(f"{name}.text", text)
    payload.add_column(f"{name}.kind", graph.kind)
    add_texts(payload, name, [graph.texts[int(code)] for code in used])
    cells = graph.cells
    payload.add_column(f"{name}.cells.node", cells.node, ascending=True)
    payload.add_column(f"{name}.cells.track", cells.track)
    payload.add_column(f"{name}.cells.waiting", cells.waiting)
    for metric, column in cells.amounts.items():
        payload.add_column(f"{name}.cells.{metric}", column)
    for metric, column in cells.in_steps.items():
        payload.add_column(f"{name}.cells.{metric}.steps", column)
