"""Threads in an Nsight Systems export: calls of CUDA and other libraries, NVTX, names."""

from __future__ import annotations

import json
import re

import numpy as np

from stepscope.formats.base.gathered import ABSENT, Gathered
from stepscope.formats.base.sqlite_file import SqliteFile
from stepscope.formats.nsight.names import Names, process_of, thread_of
from stepscope.trace.keys import CAPTURED_NODE, INPUT_DIMS, SEQUENCE_NUMBER
from stepscope.trace.model import Int64, SliceFlags, Track, UInt32
from stepscope.trace.names import plain_call

# Tables of calls, and their categories.
_CALLS = (
    ("CUPTI_ACTIVITY_KIND_RUNTIME", "cuda_runtime"),
    ("CUPTI_ACTIVITY_KIND_DRIVER", "cuda_driver"),
    ("CUBLAS_EVENTS", "cublas"),
    ("CUDNN_EVENTS", "cudnn"),
    ("OSRT_API", "osrt"),
    ("MPI_P2P_EVENTS", "mpi"),
    ("MPI_COLLECTIVES_EVENTS", "mpi"),
    ("MPI_OTHER_EVENTS", "mpi"),
    ("OPENACC_LAUNCH_EVENTS", "openacc"),
    ("CUDA_UM_CPU_PAGE_FAULT_EVENTS", "unified_memory"),
    ("CUDA_GRAPH_EVENTS", "cuda_graph_node"),
    ("CUDA_GRAPH_NODE_EVENTS", "cuda_graph_node"),
)
_MARK, _PUSHED, _STARTED = 34, 59, 60  # NvtxEventType
_MOST_COPIES = 8  # copies of a node: a graph is cloned, then instantiated
# An operator as torch.autograd.profiler.emit_nvtx writes it.
_OPERATOR = re.compile(
    r"(?P<name>.+?)(, seq = (?P<seq>\d{1,18}))?(, op_id = (?P<op>\d{1,18}))?"
    r"(, sizes = (?P<sizes>\[.*?\]))?(, input_op_ids = \[.*\])?$",
    re.DOTALL,
)
_LONGEST_OPERATOR = 1 << 12
# A range that Nsight imported from a text file has another type than one that it recorded.
_IMPORTED = {70: _PUSHED, 71: _STARTED}


def add_calls(file: SqliteFile, gathered: Gathered, names: Names) -> None:
    """Add calls to the tracks of their threads."""
    columns = ("start", "end", "globalTid", "correlationId", "nameId", "returnValue", "graphNodeId")
    for table, category in _CALLS:
        if not file.has(table, "start", "end"):
            continue
        start, end, thread, correlation, name, result, node = file.integers(table, columns)
        is_cuda = category in {"cuda_runtime", "cuda_driver"}
        integers = {"correlation": correlation, "return value": result}
        if node.any():
            original = file.integers(table, ("originalGraphNodeId",))[0]
            is_first = (node > 0) & ((original <= 0) | (original == node))
            integers[CAPTURED_NODE] = np.where(is_first, node, ABSENT)
        gathered.add_slices(
            category,
            names.ids(name, category),
            (start, end),
            _tracks(gathered, thread),
            correlation=names.correlations(thread, correlation) if is_cuda else None,
            integers=integers,
        )


def captured_nodes(file: SqliteFile, nodes: Int64) -> Int64:
    """Return the captured node that each executed graph node is a copy of."""
    copied: dict[int, int] = {}
    for table in ("CUDA_GRAPH_EVENTS", "CUDA_GRAPH_NODE_EVENTS"):
        if file.has(table, "graphNodeId", "originalGraphNodeId"):
            pairs = file.integers(table, ("graphNodeId", "originalGraphNodeId"))
            copied |= {a: b for a, b in pairs.T.tolist() if a > 0 and b > 0 and a != b}
    distinct, which = np.unique(nodes, return_inverse=True)
    nodes_there = []
    for node in distinct.tolist():
        at = node
        for _ in range(_MOST_COPIES):
            if at not in copied:
                break
            at = copied[at]
        nodes_there.append(at if at > 0 else ABSENT)
    return np.array(nodes_there, np.int64)[which] if nodes_there else nodes


def add_ranges(file: SqliteFile, gathered: Gathered, names: Names) -> None:
    """Add NVTX ranges and marks. A range without an end lasts until the end of the trace."""
    table = "NVTX_EVENTS"
    if not file.has(table, "start"):
        return
    columns = ("start", "end", "eventType", "globalTid", "endGlobalTid", "textId", "domainId")
    start, end, kind, thread, end_thread, text, domain = file.integers(table, columns)
    own = [texts[0] for _, texts in file.keyed_texts(table, "start", ("text",))]
    range_texts = _RangeTexts(gathered, names, text, own)
    name = range_texts.name
    for imported, plain in _IMPORTED.items():
        kind = np.where(kind == imported, plain, kind)
    tracks = _tracks(gathered, thread)
    domains = np.where(domain > 0, domain, ABSENT)
    is_mark = (kind == _MARK) | ((kind == ABSENT) & (end == ABSENT))
    gathered.add_marks(
        "i", name[is_mark], start[is_mark], tracks[is_mark],
        category="nvtx", integers={"domain": domains[is_mark]},
    )  # fmt: skip
    is_range = (np.isin(kind, (_PUSHED, _STARTED)) | (kind == ABSENT)) & ~is_mark
    is_open = is_range & (end == ABSENT)
    last = max(gathered.end_ns(), _latest(end[is_range]), _latest(start[is_range]))
    end = np.where(is_open, last, end)
    moved = (kind == _STARTED) | ((end_thread != ABSENT) & (end_thread != thread))
    flags = np.where(is_open, SliceFlags.UNFINISHED, 0) | np.where(moved, SliceFlags.ASYNC, 0)
    for category, rows in (
        ("cpu_op", is_range & range_texts.is_operator),
        ("user_annotation", is_range & ~range_texts.is_operator),
    ):
        gathered.add_slices(
            category,
            name[rows],
            (start[rows], end[rows]),
            tracks[rows],
            integers={"domain": domains[rows], SEQUENCE_NUMBER: range_texts.sequence[rows]},
            rest=range_texts.rest[rows],
            flags=flags[rows].astype(np.uint8),
        )


def name_tracks(file: SqliteFile, gathered: Gathered, names: Names) -> None:
    """Name threads and processes."""
    named = file.integers("ThreadNames", ("priority", "globalTid", "nameId")).T.tolist()
    for _, thread, name in sorted(named):  # the last, of the highest priority, stays
        if thread != ABSENT:
            gathered.name_thread(process_of(thread), thread_of(thread), names.text(name))
    for process, (name,) in file.keyed_texts("PROCESSES", "globalPid", ("name",)):
        if process != ABSENT:
            gathered.name_process(process_of(process), name.rpartition("/")[2])


def _latest(times: Int64) -> int:
    return int(times.max(initial=0))


class _RangeTexts:
    """The texts of ranges, registered by number or written out.

    PyTorch's ``emit_nvtx`` writes an operator's details into the name, so that hardly two are
    equal: ``aten::add, seq = 12, op_id = 5, sizes = [[2, 3], []]``.
    """

    def __init__(self, gathered: Gathered, names: Names, numbers: Int64, own: list[str]) -> None:
        plain = own if len(own) == len(numbers) else [""] * len(numbers)
        cache: dict[str, tuple[int, bool, int, int]] = {}
        rows = []
        for text, number in zip(plain, numbers.tolist(), strict=True):
            range_text = text or names.text(number)
            if range_text not in cache:
                cache[range_text] = _taken_apart(gathered, range_text)
            rows.append(cache[range_text])
        columns = np.array(rows, np.int64).reshape(-1, 4).T
        self.name = columns[0].astype(np.uint32)
        self.is_operator = columns[1].astype(np.bool_)
        self.sequence = np.ascontiguousarray(columns[2])
        self.rest = columns[3].astype(np.uint32)


def _taken_apart(gathered: Gathered, text: str) -> tuple[int, bool, int, int]:
    """Return the name, whether it is an operator, its sequence number, and other arguments."""
    match = _OPERATOR.match(text) if ", " in text and len(text) < _LONGEST_OPERATOR else None
    if match is None or (match["seq"] is None and match["op"] is None and match["sizes"] is None):
        return gathered.text(plain_call(text)), False, ABSENT, 0
    sequence = int(match["seq"]) if match["seq"] is not None else ABSENT
    try:
        sizes = json.loads(match["sizes"]) if match["sizes"] else None
    except ValueError:
        sizes = None
    rest = gathered.fragment({INPUT_DIMS: sizes}) if isinstance(sizes, list) else 0
    return gathered.text(match["name"]), True, sequence, rest


def _tracks(gathered: Gathered, threads: Int64) -> UInt32:
    distinct, which = np.unique(threads, return_inverse=True)
    tracks = [
        gathered.track(
            Track("", "") if thread == ABSENT else Track(process_of(thread), thread_of(thread))
        )
        for thread in distinct.tolist()
    ]
    return np.array(tracks, np.uint32)[which] if tracks else np.zeros(0, np.uint32)
