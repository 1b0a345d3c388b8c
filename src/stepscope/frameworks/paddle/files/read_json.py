"""Converts Paddle's Chrome JSON from the columns of the Chrome reader.

Paddle writes whole microseconds into ``ts`` and the exact times, since the first event, into texts;
it appends the duration to every name; it makes two threads of one (``11037(Python)`` and
``11037(C++)``); and it writes memory as instants. All of that is undone here.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from stepscope import _native
from stepscope.formats.base.gzip import text_chunks
from stepscope.frameworks.paddle.memory_events import TracerMemEventType, memory_of
from stepscope.frameworks.paddle.result_columns import PRODUCER
from stepscope.trace.build import build
from stepscope.trace.fragments import fragment_of
from stepscope.trace.keys import CALL_STACK, INPUT_DIMS, INPUT_NAMES, INPUT_TYPES
from stepscope.trace.model import (
    NO_CORRELATION,
    Args,
    Bool,
    Int64,
    IntColumn,
    Marks,
    Trace,
    TraceInfo,
    Track,
    UInt32,
)
from stepscope.trace.schema import Captured, Slices
from stepscope.trace.strings import Strings

Columns = Mapping[str, Any]  # the result of _native.ChromeReader.finish

_NO_TIME = np.iinfo(np.int64).min
_MEMORY = "[memory]"
_MEMORY_TYPES = [kind.name for kind in TracerMemEventType]
_THREAD = re.compile(r"(\d+)\((?:Python|C\+\+)\)")
_THREAD_NAME = re.compile(r"thread \d+:(.*)\((?:Python|C\+\+)\)", re.DOTALL)
_PLACE = re.compile(r'"place": ("(?:[^"\\]|\\.)*")')
_ADDRESS = re.compile(r'"addr": "(-?\d+)"')
_COLOUR = re.compile(r'^"cname": "\w*"(?:, )?|, "cname": "\w*"')
# The name in Paddle's layout, which is not escaped.
_RAW_NAME = re.compile(rb'(?<=\n    "name": ")(.*?)(?=", "pid": \d)', re.DOTALL)
_NO_DETAILS = re.compile(r'(?:, )?"input_shapes": \{\}, "input_dtypes": \{\}, "callstack": ""')


class PaddleJson:
    """Paddle's dialect of Chrome JSON; see ``formats.chrome.ChromeDialect``."""

    def claims(self, columns: Columns) -> bool:
        """Recognise Paddle's JSON by its top-level keys."""
        return {"schemaVersion", "span_index"} <= {key for key, _ in columns["metadata"]}

    def repaired(self, path: Path, columns: Columns) -> Columns:
        """Read a file again if unescaped names break its JSON."""
        return columns if columns["broken_at"] is None else _repaired_columns(path)

    def trace(self, columns: Columns) -> Trace:
        return _trace(columns)


def _repaired_columns(path: Path) -> Columns:
    """Read a file with its names escaped, which Paddle does not do."""
    with text_chunks(path) as chunks:
        text = b"".join(chunk.text for chunk in chunks)
    reader = _native.ChromeReader()
    reader.feed(_RAW_NAME.sub(_escaped, text))
    return reader.finish()


def _escaped(match: re.Match[bytes]) -> bytes:
    return json.dumps(match[1].decode("utf-8", "replace"))[1:-1].encode()


class _Texts:
    """The strings of the trace, collected from the tables of the file."""

    def __init__(self) -> None:
        self._ids = {"": 0}

    def id_of(self, text: str) -> int:
        return self._ids.setdefault(text, len(self._ids))

    def moved(
        self, column: UInt32, strings: Strings, change: Callable[[str], str] | None = None
    ) -> UInt32:
        """Convert ids of another table to ids of this one; ``change`` edits the texts."""
        if not len(column):
            return column
        distinct, number = np.unique(column, return_inverse=True)
        texts = [strings[int(text)] for text in distinct]
        if change is not None:
            texts = [change(text) for text in texts]
        return np.array([self.id_of(text) for text in texts], np.uint32)[number]

    def strings(self) -> Strings:
        return Strings.of(self._ids)


def _trace(columns: Columns) -> Trace:
    """Build the Trace from the Chrome reader's columns of a file of Paddle's."""
    slices, marks = columns["slices"], columns["marks"]
    theirs = Strings(*columns["strings"])
    unlabelled = _native.unlabel_paddle_events(
        theirs.blob, theirs.offsets, slices["name"], slices["args"][1]
    )
    plain = Strings(*unlabelled["strings"])
    texts = _Texts()
    start_ns, duration_ns, base_ns = _times(slices, unlabelled)
    tracks, track_of = _threads(columns["tracks"], columns["notes"])
    is_memory = _is_memory(marks, theirs)
    memory_columns = _memory_columns(marks, is_memory, theirs, track_of)
    memory_columns["place"] = np.array(
        [texts.id_of(place) for place in memory_columns["place"]], np.uint32
    )
    integers = _integers(slices["args"][0])
    raw = Slices.of(
        category=texts.moved(slices["category"], theirs),
        name=texts.moved(unlabelled["name"], plain),
        start_ns=start_ns,
        duration_ns=duration_ns,
        track=track_of[slices["track"]],
        flags=slices["flags"],
        correlation=Args(integers).dense("correlation", len(start_ns), NO_CORRELATION),
        args=Args(integers, texts.moved(unlabelled["rest"], plain, _in_our_words)),
        fields=_pairs(slices["fields"], texts, theirs),
    )
    other_marks = _marks(marks, ~is_memory, texts, theirs)
    other_marks = replace(
        other_marks, time_ns=other_marks.time_ns - base_ns, track=track_of[other_marks.track]
    )
    strings, memory, before = memory_of(memory_columns, texts.strings(), -base_ns)
    info = _info(columns, raw, base_ns)
    if before:
        figures_of = {device: figures._asdict() for device, figures in before.items()}
        info = replace(info, user={**info.user, "memoryBefore": figures_of})
    return build(Captured(raw, tuple(tracks), strings, memory=memory, marks=other_marks), info)


def _times(slices: Columns, plain: Columns) -> tuple[Int64, Int64, int]:
    """Return every slice's start and duration, and the Unix time of the first start.

    ``ts`` is the true time rounded down to µs, so the first event's time is the more exact the more
    events there are.
    """
    starts, ends = plain["start_ns"], plain["end_ns"]
    is_exact = (starts != _NO_TIME) & (ends != _NO_TIME)
    stamps = slices["start_ns"]
    if is_exact.any():
        base_ns = int((stamps[is_exact] - starts[is_exact]).max())
    else:
        base_ns = int(stamps.min()) if len(stamps) else 0
    start_ns = np.where(is_exact, starts, stamps - base_ns)
    duration_ns = np.where(is_exact, np.maximum(ends - starts, 0), slices["duration_ns"])
    return start_ns, duration_ns, base_ns


def _threads(
    names: Sequence[tuple[str, str]], notes: Sequence[tuple[str, str, str, str, int]]
) -> tuple[list[Track], UInt32]:
    """Return one track per thread, and the track of each thread id of the file."""
    facts_of: dict[tuple[str, str], dict[str, Any]] = {}
    processes: dict[str, dict[str, Any]] = {}
    for what, pid, tid, text, number in notes:
        place = (pid, _plain_thread(tid))
        if what == "process_name":
            processes.setdefault(pid, {})["process_name"] = text
        elif what == "process_sort_index":
            processes.setdefault(pid, {})["process_sort"] = number
        elif what == "thread_name":
            match = _THREAD_NAME.fullmatch(text)
            facts_of.setdefault(place, {})["thread_name"] = match[1] if match else text
        elif what == "thread_sort_index":
            order = number // 2 if tid != place[1] else number
            facts_of.setdefault(place, {})["thread_sort"] = order
    places = [(pid, _plain_thread(tid)) for pid, tid in names]
    numbers = {place: i for i, place in enumerate(dict.fromkeys(places))}
    tracks = [
        Track(pid, tid, **{**processes.get(pid, {}), **facts_of.get((pid, tid), {})})
        for pid, tid in numbers
    ]
    return tracks, np.array([numbers[place] for place in places], np.uint32)


def _plain_thread(tid: str) -> str:
    match = _THREAD.fullmatch(tid)
    return match[1] if match else tid


def _is_memory(marks: Columns, strings: Strings) -> Bool:
    words = strings.ids_of([_MEMORY, *_MEMORY_TYPES])
    if _MEMORY not in words or not len(marks["name"]):
        return np.zeros(len(marks["name"]), bool)
    types = [words[name] for name in _MEMORY_TYPES if name in words]
    is_memory: Bool = (marks["name"] == words[_MEMORY]) & np.isin(marks["category"], types)
    return is_memory


def _memory_columns(
    marks: Columns, chosen: Bool, strings: Strings, track_of: UInt32
) -> dict[str, Any]:
    """Return Paddle's memory events in the columns that its protobuf files have."""
    rows = np.flatnonzero(chosen)
    args = Args({key: IntColumn(*column) for key, column in marks["args"][0].items()})
    numbers = {
        ours: args.dense(theirs, len(chosen), 0)[rows]
        for ours, theirs in (
            ("increase", "increase_bytes"),
            ("allocated", "current_allocated"),
            ("reserved", "current_reserved"),
            ("peak_allocated", "peak_allocated"),
            ("peak_reserved", "peak_reserved"),
        )
    }
    words = strings.ids_of(_MEMORY_TYPES)
    types = np.zeros(len(strings), np.uint8)
    for number, name in enumerate(_MEMORY_TYPES):
        types[words.get(name, 0)] = number
    places, addresses = _places(marks["args"][1], rows, strings)
    return {
        "time_ns": marks["time_ns"][rows],
        "type": types[marks["category"][rows]],
        "address": addresses,
        "place": places,
        "track": track_of[marks["track"][rows]],
        **numbers,
    }


def _places(rest: UInt32, rows: Int64, strings: Strings) -> tuple[list[str], Int64]:
    if not len(rest):
        return [""] * len(rows), np.zeros(len(rows), np.int64)
    distinct, number = np.unique(rest[rows], return_inverse=True)
    names, addresses = [], np.zeros(len(distinct), np.uint64)
    for i, fragment in enumerate(distinct):
        text = strings[int(fragment)]
        place, address = _PLACE.search(text), _ADDRESS.search(text)
        names.append(json.loads(place[1], strict=False) if place else "")
        addresses[i] = int(address[1]) % 2**64 if address else 0
    return [names[i] for i in number], addresses[number].view(np.int64)


def _integers(columns: Mapping[str, tuple[UInt32, Int64]]) -> dict[str, IntColumn]:
    return {
        "correlation" if key == "correlation id" else key: IntColumn(*column)
        for key, column in columns.items()
    }


def _in_our_words(fragment: str) -> str:
    """Translate Paddle's keys of inputs to those of torch's traces; empty values are dropped."""
    if '"input_shapes"' not in fragment:
        return fragment
    plain = _NO_DETAILS.sub("", fragment)
    if plain != fragment:
        return plain
    pairs = json.loads("{" + fragment + "}", strict=False)
    shapes, dtypes = pairs.pop("input_shapes"), pairs.pop("input_dtypes", {})
    stack = pairs.pop("callstack", "")
    if isinstance(shapes, dict) and isinstance(dtypes, dict):
        names = [key for key, of_input in shapes.items() for _ in of_input]
        pairs[INPUT_DIMS] = [shape for of_input in shapes.values() for shape in of_input]
        pairs[INPUT_TYPES] = [dtype for of_input in dtypes.values() for dtype in of_input]
        pairs[INPUT_NAMES] = names
    if stack:
        pairs[CALL_STACK] = stack
    return fragment_of(pairs)


def _pairs(columns: tuple[Mapping[str, Any], UInt32], texts: _Texts, strings: Strings) -> Args:
    integers, rest = columns
    rest = texts.moved(rest, strings, lambda fragment: _COLOUR.sub("", fragment))
    kept_rest = rest if rest.any() else np.zeros(0, np.uint32)
    return Args({key: IntColumn(*column) for key, column in integers.items()}, kept_rest)


def _marks(columns: Columns, chosen: Bool, texts: _Texts, strings: Strings) -> Marks:
    rows = np.flatnonzero(chosen)
    new_row = np.cumsum(chosen) - 1

    def chosen_args(args: tuple[Mapping[str, tuple[UInt32, Int64]], UInt32]) -> Args:
        integers = {}
        for key, (at, values) in args[0].items():
            inside = chosen[at]
            integers[key] = IntColumn(new_row[at[inside]].astype(np.uint32), values[inside])
        rest = texts.moved(args[1][rows], strings) if len(args[1]) else args[1]
        return Args({key: column for key, column in integers.items() if len(column.rows)}, rest)

    return Marks(
        phase=columns["phase"][rows],
        category=texts.moved(columns["category"][rows], strings),
        name=texts.moved(columns["name"][rows], strings),
        time_ns=columns["time_ns"][rows],
        track=columns["track"][rows],
        args=chosen_args(columns["args"]),
        fields=chosen_args(columns["fields"]),
    )


def _info(columns: Columns, raw: Slices, base_ns: int) -> TraceInfo:
    user = {key: json.loads(text, strict=False) for key, text in columns["metadata"]}
    anomalies = dict(columns["anomalies"])
    odd = anomalies.pop("entries that are no events", 0) - 1  # Paddle ends its list with {}
    if odd > 0:
        anomalies["entries that are no events"] = odd
    pids = {pid for pid, tid in columns["tracks"] if _THREAD.fullmatch(tid)}
    return TraceInfo(
        producer=PRODUCER,
        start_ns=int(raw.start_ns.min(initial=0)),
        end_ns=int((raw.start_ns + raw.duration_ns).max(initial=0)),
        wall_offset_ns=base_ns,
        pid=int(pids.pop()) if len(pids) == 1 else 0,
        anomalies=anomalies,
        user=user,
    )
