"""The work of a CUDA graph finds who captured it, without a device: nodes are noted by hand."""

from __future__ import annotations

from types import FunctionType
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from command_line import python
from stepscope import _native, profile, record_function
from stepscope.analysis.calls.launches import captured_nodes
from stepscope.analysis.host.source_lines import source_lines
from stepscope.analysis.work.work import device_work
from stepscope.frameworks.cuda.cupti_columns import work_captured
from stepscope.frameworks.cuda.graphs import NAME, nodes_of
from stepscope.frameworks.cuda.graphs import captured_nodes as node_events
from stepscope.frameworks.torch import operators
from stepscope.trace.build import build
from stepscope.trace.join import merge_parts
from stepscope.trace.model import NO_SLICE
from stepscope.trace.schema import Captured

if TYPE_CHECKING:
    from pathlib import Path

    from stepscope.trace.model import Trace

FIRST = 1 << 40  # like CUPTI's: not small
KERNEL_NS = 1_000


def replayed(ids: list[int], start_ns: int) -> dict[str, Any]:
    """Return what CUPTI records of a graph's kernels."""
    count = len(ids)
    return {
        "kind": np.zeros(count, np.uint8),
        "name": np.zeros(count, np.uint32),
        "names": [b"kernel"],
        "shapes": np.ones(8, np.int32),
        "shape": np.zeros(count, np.uint32),
        "start_ns": start_ns + KERNEL_NS * np.arange(count, dtype=np.int64),
        "duration_ns": np.full(count, KERNEL_NS, np.int64),
        "graph": np.ones(count, np.int64),
        "graph_node": np.array(ids, np.int64),
        **{
            name: np.zeros(count, np.int64)
            for name in ("correlation", "device", "context", "stream", "bytes")
        },
    }


def with_replay(trace: Trace, ids: list[int], since_ns: int) -> Trace:
    """Return a recording in which a graph with some nodes was replayed."""
    columns = replayed(ids, trace.info.end_ns)
    nodes = nodes_of(columns)
    assert nodes is not None
    host = Captured(trace.slices, trace.tracks, trace.strings, stacks=trace.stacks)
    parts = [host, work_captured(columns, (), nodes), node_events(nodes, since_ns)]
    return build(merge_parts(parts), trace.info)


def capture(node: int, clone: int) -> None:
    _native.note_graph_node(node)
    _native.note_graph_clone(clone, node)


def test_kernels_of_a_graph_belong_to_what_was_captured() -> None:
    since_ns = _native.now_ns()
    with profile() as profiler:
        with record_function("attention"):
            capture(FIRST, FIRST + 1)
        with record_function("feed forward"):
            capture(FIRST + 2, FIRST + 3)
    trace = with_replay(profiler.trace, [FIRST + 1, FIRST + 3, FIRST + 1, FIRST + 9], since_ns)
    work = device_work(trace)
    owners = [int(work.operator[row]) for row in work.rows]
    names = [trace.name_of(row) if row != NO_SLICE else "" for row in owners]
    assert names == ["attention", "feed forward", "attention", ""]
    lines = source_lines(trace)
    assert lines is not None
    here = {
        place.function: ns
        for place, ns in zip(lines.place, lines.device_ns.tolist(), strict=True)
        if ns
    }
    assert here == {"capture": 3 * KERNEL_NS}


def test_a_graph_from_before_the_recording_has_its_line() -> None:
    capture(FIRST + 10, FIRST + 11)
    with profile() as profiler, record_function("replay"):
        pass
    trace = with_replay(profiler.trace, [FIRST + 11], profiler.trace.info.start_ns)
    (row,) = device_work(trace).rows.tolist()
    node = int(captured_nodes(trace)[row])
    frames = [trace.strings[text] for text in trace.stacks.frames(int(trace.slices.stack[node]))]
    assert frames[0].endswith(": capture")
    assert "before the recording" in trace.tracks[int(trace.slices.track[node])].thread_name


def test_a_graph_from_before_the_recording_has_its_operator() -> None:
    torch = pytest.importorskip("torch")
    bridge = operators.load_bridge(torch)
    library = torch.library.Library("captured_by_stepscope", "DEF")
    library.define("launch(Tensor x) -> Tensor")

    def launch(x: Any) -> Any:
        capture(FIRST + 20, FIRST + 21)
        return x.clone()

    library.impl("launch", launch, "CPU")
    bridge.stepscope_bridge_name_operators(True)
    try:
        torch.ops.captured_by_stepscope.launch(torch.ones(2))
        capture(FIRST + 22, FIRST + 23)  # by no operator
    finally:
        bridge.stepscope_bridge_name_operators(False)
        library._destroy()
    capture(FIRST + 24, FIRST + 25)
    with profile() as profiler:
        pass
    ids = [FIRST + 21, FIRST + 23, FIRST + 25]
    trace = with_replay(profiler.trace, ids, profiler.trace.info.start_ns)
    work = device_work(trace)
    names = [trace.name_of(int(work.operator[row])) for row in work.rows]
    assert names == ["captured_by_stepscope::launch", NAME, NAME]
    assert not any("captured" in row.key for row in profiler.key_averages())


def test_an_address_that_was_used_again_unseen_is_another_node() -> None:
    capture(FIRST + 30, FIRST + 31)
    _native.note_graph_watch()
    _native.note_graph_clone(FIRST + 32, FIRST + 30)
    nodes = _native.graph_nodes(np.array([FIRST + 31, FIRST + 32]))
    assert nodes["row"].tolist() == [0, -1]


def test_a_copy_of_a_copy_is_what_the_first_was() -> None:
    capture(FIRST + 40, FIRST + 41)
    _native.note_graph_clone(FIRST + 42, FIRST + 41)
    nodes = _native.graph_nodes(np.array([FIRST + 41, FIRST + 42]))
    assert nodes["row"].tolist() == [0, 0]
    assert len(nodes["number"]) == 1


def capture_itself(node: int) -> None:
    capture(node, node)


def test_functions_that_come_and_go_at_one_address_are_told_apart() -> None:
    ids = list(range(FIRST + 9_000, FIRST + 9_100))
    addresses = set()
    for number in ids:
        name = f"made_{number}"
        made = capture_itself.__code__.replace(co_name=name, co_qualname=name)
        addresses.add(id(made))
        FunctionType(made, globals())(number)
        del made
    nodes = _native.graph_nodes(np.array(ids, np.int64))
    texts, parent, frame = nodes["texts"], nodes["parent"], nodes["frame"]
    for number, row in zip(ids, nodes["row"].tolist(), strict=True):
        outer = int(parent[int(nodes["stack"][row])])  # of capture()
        assert texts[int(frame[outer])].endswith(f"made_{number}")
    assert len(addresses) < len(ids)  # else it shows nothing


def test_what_is_taken_for_a_copy_has_its_line_where_the_program_went_on() -> None:
    ids = [FIRST + 9_200, FIRST + 9_201]

    def first() -> None:
        _native.note_graph_node(ids[0])

    def second() -> None:
        _native.note_graph_node(ids[1], True)

    first()
    second()
    for number in ids:
        _native.note_graph_clone(number, number)
    nodes = _native.graph_nodes(np.array(ids, np.int64))
    stacks = nodes["stack"][nodes["row"]].tolist()
    lines = [nodes["texts"][int(nodes["frame"][stack])] for stack in stacks]
    assert [line.rpartition(".")[2] for line in lines] == ["first", "second"]


NOTED_MEANWHILE = f"""
import gc
import numpy as np
from stepscope import _native

def note(*_):
    _native.note_graph_node({FIRST + 1})

note()
_native.note_graph_clone({FIRST}, {FIRST + 1})
gc.callbacks.append(note)
gc.set_threshold(1)
nodes = _native.graph_nodes(np.array([{FIRST}]))
gc.set_threshold(0)
assert nodes["row"].tolist() == [0]
"""


def test_a_graph_may_be_captured_while_nodes_are_asked_for(tmp_path: Path) -> None:
    done = python("-c", NOTED_MEANWHILE, cwd=tmp_path)  # it would wait for itself
    assert (done.returncode, done.stderr) == (0, "")
