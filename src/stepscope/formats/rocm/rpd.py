"""rocmProfileData's files (``.rpd``): ROCm's first SQLite layout, which its tracer still writes."""

from __future__ import annotations

import numpy as np

from stepscope.errors import TraceReadError
from stepscope.formats.base.gathered import ABSENT, Gathered, device_track
from stepscope.formats.base.sqlite_file import SqliteFile
from stepscope.trace.model import Trace, TraceInfo, Track

PRODUCER = "rocmProfileData"


def is_rpd(file: SqliteFile) -> bool:
    """Tell whether a file has this layout."""
    return file.has("rocpd_op", "gpuId") or file.has("rocpd_api", "apiName_id")


def read_rpd(file: SqliteFile) -> Trace:
    gathered = Gathered()
    strings = file.texts("rocpd_string", "id", "string")
    _add_work(file, gathered, strings)
    _add_calls(file, gathered, strings)
    if not len(gathered):
        way_out = "record with runTracer.sh, or rpdTracerControl"
        raise TraceReadError(file.path, "is a .rpd file without an event", way_out)
    return gathered.trace(TraceInfo(PRODUCER))


def _add_work(file: SqliteFile, gathered: Gathered, strings: dict[int, str]) -> None:
    columns = ("id", "gpuId", "queueId", "start", "end", "description_id", "opType_id")
    number, device, queue, start, end, text, kind = file.integers("rocpd_op", columns)
    pairs = file.integers("rocpd_api_ops", ("op_id", "api_id"))
    call_of = dict(zip(pairs[0].tolist(), pairs[1].tolist(), strict=True))
    correlation = np.array([call_of.get(call, ABSENT) for call in number.tolist()], np.int64)
    for word in np.unique(kind).tolist():
        what = strings.get(word, "").lower()
        category = "gpu_memcpy" if "copy" in what else "kernel"
        if "fill" in what or "set" in what:
            category = "gpu_memset"
        if "barrier" in what or "marker" in what:
            category = "cuda_sync"
        rows = kind == word
        name = gathered.name_ids(text[rows], lambda key: strings.get(key, ""))
        name = np.where(name == 0, gathered.text(strings.get(word, category)), name)
        tracks = [
            gathered.track(device_track(*place))
            for place in zip(device[rows].tolist(), queue[rows].tolist(), strict=True)
        ]
        gathered.add_slices(
            category,
            name,
            (start[rows], end[rows]),
            np.array(tracks, np.uint32),
            correlation=correlation[rows],
            integers={"device": device[rows], "stream": queue[rows]},
        )


def _add_calls(file: SqliteFile, gathered: Gathered, strings: dict[int, str]) -> None:
    columns = ("id", "pid", "tid", "start", "end", "apiName_id", "args_id")
    number, pid, tid, start, end, text, arguments = file.integers("rocpd_api", columns)
    if not len(number):
        return
    keys, which = np.unique(np.stack([pid, tid]), axis=1, return_inverse=True)
    tracks = [
        gathered.track(Track(_shown(process), _shown(thread)))
        for process, thread in keys.T.tolist()
    ]
    track = np.array(tracks, np.uint32)[which.reshape(-1)]
    is_range = np.isin(text, [n for n, word in strings.items() if word == "UserMarker"])
    for rows, category, names in (
        (~is_range, "hip_runtime", text),
        (is_range, "user_annotation", arguments),
    ):
        gathered.add_slices(
            category,
            gathered.name_ids(names[rows], lambda key: strings.get(key, "")),
            (start[rows], end[rows]),
            track[rows],
            correlation=number[rows] if category == "hip_runtime" else None,
        )


def _shown(number: int) -> str:
    return "" if number == ABSENT else str(number)
