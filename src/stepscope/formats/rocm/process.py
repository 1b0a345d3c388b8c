"""One process of a rocpd file: its tables in either layout."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from stepscope.formats.base.gathered import ABSENT, Gathered, device_track, shapes_of
from stepscope.formats.base.sqlite_file import SqliteFile
from stepscope.trace.keys import BYTES
from stepscope.trace.model import Bool, Int64, Track, UInt32

Found = Mapping[str, Int64]

_PREFIX = "rocpd_"
STRINGS = "rocpd_string"
_PLACE = ("start", "end", "start_id", "end_id", "track_id", "pid", "tid", "event_id")
_DEVICE = ("agent_id", "queue_id", "stream_id")
_GRID = tuple(f"{what}_{axis}" for what in ("grid_size", "workgroup_size") for axis in "xyz")
_A_PROCESS = 1 << 48  # more than any stack id
_CATEGORIES = (
    ("MARKER", "user_annotation"),
    ("HIP", "hip_runtime"),
    ("HSA", "hsa_api"),
    ("RCCL", "rccl_api"),
)


class Process:
    """The tables of one process."""

    def __init__(
        self, file: SqliteFile, gathered: Gathered, suffixes: Sequence[str], place: int
    ) -> None:
        """Read the tables that others refer to; a file has several processes, by suffix."""
        self.file = file
        self.gathered = gathered
        self.suffix = suffixes[place]
        self._alone = len(suffixes) == 1
        self._link_offset = place * _A_PROCESS
        self.strings = file.texts(self.table("string"), "id", "string")
        self._times = _by_id(self.columns("timestamp", ("id", "value")))
        self._tracks = _rows_by_id(self.columns("track", ("id", "pid", "tid", *_DEVICE)))
        self._pids = _by_id(self.columns("info_process", ("id", "pid")))
        self._tids = _by_id(self.columns("info_thread", ("id", "tid")))
        self._thread_names = file.texts(self.table("info_thread"), "id", "name")
        self._commands = file.texts(self.table("info_process"), "id", "command")
        agents = self.columns("info_agent", ("id", "type_index", "logical_index"))
        self._agents = {
            agent: kind if kind >= 0 else max(logical, 0)
            for agent, kind, logical in agents.T.tolist()
        }
        columns = ("id", "stack_id", "correlation_id", "category_id")
        self._events = _rows_by_id(self.columns("event", columns))

    def table(self, name: str) -> str:
        return f"{_PREFIX}{name}{self.suffix}"

    def columns(self, table: str, columns: Sequence[str]) -> Int64:
        return self.file.integers(self.table(table), columns)

    def texts(self, table: str, column: str) -> Sequence[str]:
        """Return a column of texts, without empty ones."""
        return [text for text in self.file.texts(self.table(table), "id", column).values() if text]

    def add(self) -> None:
        self._add_kernels()
        self._add_copies()
        self._add_regions()
        self._add_instants()

    def devices(self) -> list[dict[str, Any]]:
        """Return the descriptions of the devices."""
        rows = self.file.keyed_texts(
            self.table("info_agent"), "id", ("type", "product_name", "model_name", "name")
        )
        return [
            {"id": self._agents.get(agent, 0), "name": product or model or name}
            for agent, (kind, product, model, name) in rows
            if kind == "GPU"
        ]

    def device_of(self, agent: int) -> int:
        """Return the device index of an agent."""
        return int(self._agents.get(agent, 0))

    def _add_kernels(self) -> None:
        columns = (*_PLACE, *_DEVICE, "kernel_id", "dispatch_id", "group_segment_size", *_GRID)
        values = self.placed("kernel_dispatch", columns)
        if values is None:
            return
        symbols = self.file.keyed_texts(
            self.table("info_kernel_symbol"), "id", ("display_name", "kernel_name")
        )
        names = {number: display or name for number, (display, name) in symbols}
        grid = np.stack([values[name] for name in _GRID])
        is_complete = (grid != ABSENT).all(axis=0) & (grid[3:] > 0).all(axis=0)
        # HSA counts work items, CUDA and Kineto blocks.
        blocks = np.where(is_complete, -(-grid[:3] // np.where(grid[3:] > 0, grid[3:], 1)), ABSENT)
        shapes = shapes_of(self.gathered, np.concatenate([blocks, grid[3:]]))
        more = {"shared memory": values["group_segment_size"], "dispatch": values["dispatch_id"]}
        name = self._name_ids(values["kernel_id"], names, "kernel")
        self._add_work("kernel", name, values, more, shapes)

    def _add_copies(self) -> None:
        columns = (*_PLACE, *_DEVICE, "name_id", "size", "dst_agent_id", "src_agent_id")
        values = self.placed("memory_copy", columns)
        if values is None:
            return
        name = self._name_ids(values["name_id"], self.strings, "memory copy", _copy_name)
        if (values["agent_id"] == ABSENT).all():
            agent = self._gpu_of(values["dst_agent_id"], values["src_agent_id"])
            values = {**values, "agent_id": agent}
        self._add_work("gpu_memcpy", name, values, {BYTES: values["size"]})

    def _gpu_of(self, target: Int64, source: Int64) -> Int64:
        rows = self.file.keyed_texts(self.table("info_agent"), "id", ("type",))
        gpus = np.array([agent for agent, (kind,) in rows if kind == "GPU"], np.int64)
        return np.where(np.isin(target, gpus), target, source)

    def _add_regions(self) -> None:
        values = self.placed("region", (*_PLACE, "name_id"))
        if values is None:
            return
        stack, category = self._event_columns(values["event_id"])
        tracks = self._threads(values)
        messages = self._messages(values["event_id"], category)
        for number in np.unique(category).tolist():
            word = self.strings.get(number, "").upper()
            kind = next((to for start, to in _CATEGORIES if word.startswith(start)), word.lower())
            rows = category == number
            name = self._name_ids(values["name_id"][rows], self.strings, "region")
            if kind == "user_annotation":
                of_ranges = messages[rows]
                name = np.where(of_ranges != 0, of_ranges, name)
            self.gathered.add_slices(
                kind,
                name,
                (values["start"][rows], values["end"][rows]),
                tracks[rows],
                correlation=stack[rows] if kind in {"hip_runtime", "hsa_api"} else None,
                integers={"correlation": stack[rows]},
            )

    def _add_instants(self) -> None:
        """Add events without duration, such as roctx marks: rocprofv3 calls them samples."""
        columns = ("timestamp", "timestamp_id", "track_id", "event_id", "name_id", "pid", "tid")
        values = dict(zip(columns, self.columns("sample", columns), strict=True))
        if not len(values["event_id"]):
            return
        time_ns = values["timestamp"]
        if not self.file.has(self.table("sample"), "timestamp"):
            time_ns = _looked_up(values["timestamp_id"], self._times)
        self._place_by_track(values)
        _, category = self._event_columns(values["event_id"])
        messages = self._messages(values["event_id"], category)
        texts = self._name_ids(
            np.where(values["name_id"] == ABSENT, category, values["name_id"]),
            self.strings,
            "sample",
        )
        self.gathered.add_marks(
            "i",
            np.where(messages != 0, messages, texts),
            time_ns,
            self._threads(values),
            category="sample",
        )

    def _messages(self, events: Int64, category: Int64) -> UInt32:
        """Return the texts of roctx ranges, which are stored in their events."""
        marked = [n for n, word in self.strings.items() if word.upper().startswith("MARKER")]
        wanted = set(events[np.isin(category, marked)].tolist())
        if not wanted:
            return np.zeros(len(events), np.uint32)
        rows = self.file.keyed_texts(self.table("event"), "id", ("extdata",))
        ids = {
            event: self.gathered.text(_message(data)) for event, (data,) in rows if event in wanted
        }
        return np.array([ids.get(event, 0) for event in events.tolist()], np.uint32)

    def placed(self, table: str, columns: Sequence[str]) -> dict[str, Int64] | None:
        """Return columns with times and places in either layout; None if the table is empty."""
        if not self.file.has(self.table(table)):
            return None
        values = dict(zip(columns, self.columns(table, columns), strict=True))
        if not self.file.has(self.table(table), "start"):
            values["start"] = _looked_up(values["start_id"], self._times)
            values["end"] = _looked_up(values["end_id"], self._times)
        if self._tracks and "track_id" in values:
            self._place_by_track(values)
        return values

    def _place_by_track(self, values: dict[str, Int64]) -> None:
        """Fill in threads and streams of rows that refer to a track by number."""
        none = (ABSENT,) * 5
        places = np.array(
            [self._tracks.get(track, none) for track in values["track_id"].tolist()], np.int64
        ).reshape(-1, 5)
        for i, name in enumerate(("pid", "tid", *_DEVICE)):
            if name in values:
                values[name] = np.where(values[name] == ABSENT, places[:, i], values[name])

    def _event_columns(self, events: Int64) -> tuple[Int64, Int64]:
        """Return the number that links a call to its work, and the category."""
        none = (ABSENT, ABSENT, ABSENT)
        rows = np.array([self._events.get(event, none) for event in events.tolist()], np.int64)
        stack, correlation, category = rows.reshape(-1, 3).T
        number = np.where(
            _is_number(stack), stack, np.where(_is_number(correlation), correlation, ABSENT)
        )
        return np.where(number == ABSENT, ABSENT, number + self._link_offset), category

    def _add_work(
        self, category: str, name: UInt32, values: Found, more: Found, rest: UInt32 | None = None
    ) -> None:
        device = _looked_up(values["agent_id"], self._agents, 0)
        stream = np.where(values["stream_id"] > 0, values["stream_id"], values["queue_id"])
        correlation, _ = self._event_columns(values["event_id"])
        keys, which = np.unique(np.stack([device, stream]), axis=1, return_inverse=True)
        process = "" if self._alone else str(next(iter(self._pids.values()), self.suffix))
        tracks = [
            self.gathered.track(device_track(number, queue, process))
            for number, queue in keys.T.tolist()
        ]
        integers = {
            "device": device,
            "stream": stream,
            "queue": values["queue_id"],
            "correlation": correlation,
            **more,
        }
        self.gathered.add_slices(
            category,
            name,
            (values["start"], values["end"]),
            np.array(tracks, np.uint32)[which.reshape(-1)],
            correlation=correlation,
            integers=integers,
            rest=rest,
        )

    def _threads(self, values: Found) -> UInt32:
        keys, which = np.unique(
            np.stack([values["pid"], values["tid"]]), axis=1, return_inverse=True
        )
        tracks = [self.gathered.track(self.thread_track(*key)) for key in keys.T.tolist()]
        return np.array(tracks, np.uint32)[which.reshape(-1)]

    def thread_track(self, process: int, thread: int) -> Track:
        """Return the track of a thread by its table ids."""
        pid, tid = self._pids.get(process, process), self._tids.get(thread, thread)
        return Track(
            "" if pid == ABSENT else str(pid),
            "" if tid == ABSENT else str(tid),
            process_name=self._commands.get(process, "").partition(" ")[0].rpartition("/")[2],
            thread_name=self._thread_names.get(thread, ""),
        )

    def _name_ids(
        self,
        numbers: Int64,
        texts: Mapping[int, str],
        default: str,
        shown: Callable[[str], str] = str,
    ) -> UInt32:
        return self.gathered.name_ids(numbers, lambda number: shown(texts.get(number, default)))


def _copy_name(name: str) -> str:
    """Return Kineto's name of a copy: MEMORY_COPY_HOST_TO_DEVICE is HtoD."""
    words = name.upper().removeprefix("MEMORY_COPY_").split("_TO_")
    if len(words) != 2 or not {*words} <= {"HOST", "DEVICE"}:
        return name
    return f"Memcpy {words[0][0]}to{words[1][0]}"


def _message(data: str) -> str:
    try:
        content = json.loads(data)
    except (ValueError, RecursionError):
        return ""
    message = content.get("message") if isinstance(content, dict) else None
    return message if isinstance(message, str) else ""


def _is_number(links: Int64) -> Bool:
    return (links > 0) & (links < _A_PROCESS)


def _by_id(columns: Int64) -> dict[int, int]:
    return dict(zip(columns[0].tolist(), columns[1].tolist(), strict=True))


def _rows_by_id(columns: Int64) -> dict[int, tuple[int, ...]]:
    return {row[0]: tuple(row[1:]) for row in columns.T.tolist()}


def _looked_up(keys: Int64, values: Mapping[int, int], default: int = ABSENT) -> Int64:
    distinct, which = np.unique(keys, return_inverse=True)
    result = [values.get(key, default) for key in distinct.tolist()]
    return np.array(result, np.int64)[which] if result else keys
