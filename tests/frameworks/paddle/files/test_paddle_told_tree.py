"""The trees of Paddle's files are those that the file tells, also where times are ambiguous."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from paddle_proto import file_class
from stepscope.formats import read_trace
from stepscope.frameworks.paddle.dialect.result import load_profiler_result
from stepscope.frameworks.paddle.views.summary import summary_text
from stepscope.report.build import export_html

if TYPE_CHECKING:
    from pathlib import Path

# (name, parent, start, end): siblings overlap, and events without a duration stand at the ends of
# others and where one ends and the next begins.
NODES = [
    ("step", "root node", 0, 100),
    ("first", "step", 10, 60),
    ("second", "step", 50, 90),
    ("of first", "first", 52, 58),
    ("of second", "second", 55, 57),
    ("at its end", "first", 60, 60),
    ("at its begin", "step", 50, 50),
    ("in nothing", "at its begin", 50, 50),
    ("at the very end", "step", 100, 100),
    ("next", "root node", 100, 120),
]
MEMORY = {"first": 53, "second": 59}


def write(path: Path) -> None:
    file = file_class()(version="1.0.2", span_index=0)
    tree = file.thread_trees.add(thread_id=7)
    ids = {"root node": 0}
    root = tree.host_nodes.add(id=0, parentid=-1)
    root.event.MergeFrom(event(root.event, "root node", 0, (1 << 64) - 1))
    for name, parent, start, end in NODES:
        ids[name] = len(ids)
        node = tree.host_nodes.add(id=ids[name], parentid=ids[parent])
        node.event.MergeFrom(event(node.event, name, 1000 + start, 1000 + end))
        if name in MEMORY:
            memory = node.mem_nodes.add().event
            for field in memory.DESCRIPTOR.fields:
                setattr(memory, field.name, "Place(cpu)" if field.name == "place" else 1)
            memory.timestamp_ns = 1000 + MEMORY[name]
    path.write_bytes(file.SerializeToString())


def event(made: Any, name: str, start: int, end: int) -> Any:
    return type(made)(name=name, type=14, start_ns=start, end_ns=end, process_id=7, thread_id=7)


def described_events(path: Path) -> dict[str, tuple[str, int]]:
    """Return the parent of each node of a file, and how many memory events it has."""
    parent_of = {}
    waiting = list(load_profiler_result(path).get_data().values())
    while waiting:
        node = waiting.pop()
        for child in node.children_node:
            parent_of[child.name] = node.name, len(child.mem_node)
            waiting.append(child)
    return parent_of


def test_nodes_keep_their_parents(tmp_path: Path) -> None:
    write(path := tmp_path / "told.pb")
    expected = {name: (parent, int(name in MEMORY)) for name, parent, *_ in NODES}
    assert described_events(path) == expected
    result = load_profiler_result(path)
    result.save(tmp_path / "again.pb", "pb")
    assert described_events(tmp_path / "again.pb") == expected


def test_what_a_trace_derives_follows_the_tree(tmp_path: Path) -> None:
    write(path := tmp_path / "told.pb")
    trace = read_trace(path)
    rows = {name: row for row, name in enumerate(trace.names())}
    depth, self_ns = trace.slices.depth, trace.slices.self_ns
    depths = {"step": 0, "first": 1, "of first": 2, "in nothing": 2}
    assert {name: int(depth[rows[name]]) for name in depths} == depths
    assert int(self_ns[rows["first"]]) == 50 - 6
    assert int(self_ns[rows["second"]]) == 40 - 2
    assert "of second" in summary_text(trace)
    export_html(trace, tmp_path / "told.html")
