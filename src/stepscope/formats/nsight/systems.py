"""Nsight Systems' SQLite export: ``nsys export --type sqlite``, or the file beside a report.

Empty tables are not created, and columns differ between versions: every part is optional. A global
id is ``pid << 24 | tid``, with the machine in the bits above.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import numpy as np

from stepscope.errors import TraceReadError
from stepscope.formats.base.gathered import ABSENT, Gathered, device_track, shapes_of
from stepscope.formats.base.sqlite_file import SqliteFile
from stepscope.formats.nsight.host import add_calls, add_ranges, captured_nodes, name_tracks
from stepscope.formats.nsight.names import Names, process_of
from stepscope.trace.keys import CAPTURED_NODE
from stepscope.trace.model import Int64, Trace, TraceInfo, UInt32
from stepscope.trace.validate import LATEST_NS

PRODUCER = "Nsight Systems"
_KIND = "CUPTI_ACTIVITY_KIND_"
_OF_WORK = ("deviceId", "contextId", "streamId", "correlationId", "graphNodeId", "globalPid")
_OF_KERNELS = (
    "registersPerThread", "staticSharedMemory", "dynamicSharedMemory",
    "gridX", "gridY", "gridZ", "blockX", "blockY", "blockZ",
)  # fmt: skip
# CUpti_ActivityMemcpyKind, CUpti_ActivityMemoryKind
_COPIES = {
    1: "HtoD", 2: "DtoH", 3: "HtoA", 4: "AtoH", 5: "AtoA", 6: "AtoD", 7: "DtoA", 8: "DtoD",
    9: "HtoH", 10: "PtoP", 11: "Unified HtoD", 12: "Unified DtoH", 13: "Unified DtoD",
}  # fmt: skip
_MEMORY = {
    0: "Unknown", 1: "Pageable", 2: "Pinned", 3: "Device", 4: "Array", 5: "Managed",
    6: "Device Static", 7: "Managed Static",
}  # fmt: skip
_SYNCS = {
    1: "Event Sync", 2: "Stream Wait Event", 3: "Stream Sync", 4: "Context Sync",
}  # fmt: skip


def is_nsight(file: SqliteFile) -> bool:
    names = set(file.tables)
    return "StringIds" in names or any(name.startswith(_KIND) for name in names)


def read_nsight(file: SqliteFile) -> Trace:
    if not is_nsight(file):
        raise TraceReadError(file.path, "is an SQLite file without Nsight's tables")
    gathered = Gathered()
    names = Names(file, gathered)
    _add_kernels(file, gathered, names)
    _add_copies(file, gathered, names)
    for kind in _KINDS:
        _add_kind(file, gathered, names, kind)
    add_calls(file, gathered, names)
    add_ranges(file, gathered, names)
    name_tracks(file, gathered, names)
    if not len(gathered):
        raise TraceReadError(
            file.path,
            f"is an export of Nsight Systems without an event (it has {len(file.tables)} tables)",
            "record with --trace=cuda,nvtx, or export it again",
        )
    return gathered.trace(_info(file))


def _add_kernels(file: SqliteFile, gathered: Gathered, names: Names) -> None:
    table = f"{_KIND}KERNEL"
    if not file.has(table, "start", "end"):
        return
    text = next(
        (
            column
            for column in ("demangledName", "shortName", "mangledName")
            if file.has(table, column)
        ),
        "demangledName",
    )
    columns = ("start", "end", text, *_OF_WORK, *_OF_KERNELS)
    values = dict(zip(columns, file.integers(table, columns), strict=True))
    static, dynamic = values["staticSharedMemory"], values["dynamicSharedMemory"]
    shared = np.where(static == ABSENT, 0, static) + np.where(dynamic == ABSENT, 0, dynamic)
    more = {
        "registers per thread": values["registersPerThread"],
        "shared memory": np.where((static == ABSENT) & (dynamic == ABSENT), ABSENT, shared),
    }
    shapes = shapes_of(gathered, np.stack([values[name] for name in _OF_KERNELS[3:]]))
    name = names.ids(values[text], "kernel")
    _add_work(_Target(file, gathered, names), "kernel", name, values, more, shapes)


def _add_copies(file: SqliteFile, gathered: Gathered, names: Names) -> None:
    table = f"{_KIND}MEMCPY"
    if not file.has(table, "start", "end"):
        return
    columns = ("start", "end", *_OF_WORK, "bytes", "copyKind", "srcKind", "dstKind")
    values = dict(zip(columns, file.integers(table, columns), strict=True))
    keys = np.stack([values[name] for name in columns[-3:]])
    distinct, which = np.unique(keys, axis=1, return_inverse=True)
    ids = gathered.texts(_copy_name(*key) for key in distinct.T.tolist())
    name = ids[which.reshape(-1)]
    _add_work(
        _Target(file, gathered, names), "gpu_memcpy", name, values, {"bytes": values["bytes"]}
    )


def _copy_name(kind: int, source: int, target: int) -> str:
    """Return Kineto's name of such a copy."""
    name = f"Memcpy {_COPIES.get(kind, 'of another kind')}"
    if ABSENT in {source, target}:
        return name
    return f"{name} ({_MEMORY.get(source, 'Unknown')} -> {_MEMORY.get(target, 'Unknown')})"


def _fill_name(kind: int) -> str:
    return f"Memset ({_MEMORY.get(kind, 'Device')})"


def _wait_name(kind: int) -> str:
    return _SYNCS.get(kind, "Sync")


def _graph_name(graph: int) -> str:
    return "CUDA graph" if graph == ABSENT else f"CUDA graph {graph}"


class _Kind(NamedTuple):
    """Work that is named by one of its columns."""

    table: str
    category: str
    column: str
    name: Callable[[int], str]
    integers: Mapping[str, str]  # the argument's name for each column


_KINDS = (
    _Kind("MEMSET", "gpu_memset", "memKind", _fill_name, {"bytes": "bytes"}),
    _Kind("SYNCHRONIZATION", "cuda_sync", "syncType", _wait_name, {}),
    # By default Nsight traces graphs as a whole, not their nodes.
    _Kind("GRAPH_TRACE", "kernel", "graphId", _graph_name, {"graph id": "graphId"}),
)


def _add_kind(file: SqliteFile, gathered: Gathered, names: Names, kind: _Kind) -> None:
    table = f"{_KIND}{kind.table}"
    if not file.has(table, "start", "end"):
        return
    columns = ("start", "end", *_OF_WORK, kind.column, *kind.integers.values())
    values = dict(zip(columns, file.integers(table, columns), strict=True))
    name = gathered.name_ids(values[kind.column], kind.name)
    more = {key: values[column] for key, column in kind.integers.items()}
    _add_work(_Target(file, gathered, names), kind.category, name, values, more)


class _Target(NamedTuple):
    """The file that work is read from, and the trace it goes to."""

    file: SqliteFile
    gathered: Gathered
    names: Names


def _add_work(  # noqa: PLR0917 - the columns of a slice
    target: _Target,
    category: str,
    name: UInt32,
    values: Mapping[str, Int64],
    more: Mapping[str, Int64],
    rest: UInt32 | None = None,
) -> None:
    """Add work on streams, with a track for each stream of a process."""
    file, gathered, names = target
    device = np.where(values["deviceId"] == ABSENT, 0, values["deviceId"])
    stream = values["streamId"]
    process = values["globalPid"]
    keys, which = np.unique(np.stack([device, stream, process]), axis=1, return_inverse=True)
    alone = len(np.unique(process)) <= 1
    tracks = [
        gathered.track(device_track(device, stream, "" if alone else process_of(process)))
        for device, stream, process in keys.T.tolist()
    ]
    integers = {
        "device": device,
        "context": values["contextId"],
        "stream": stream,
        "correlation": values["correlationId"],
        "graph node id": np.where(values["graphNodeId"] > 0, values["graphNodeId"], ABSENT),
        CAPTURED_NODE: captured_nodes(file, values["graphNodeId"]),
        **more,
    }
    gathered.add_slices(
        category,
        name,
        (values["start"], values["end"]),
        np.array(tracks, np.uint32)[which.reshape(-1)],
        correlation=names.correlations(process, values["correlationId"]),
        integers=integers,
        rest=rest,
    )


def _info(file: SqliteFile) -> TraceInfo:
    system: dict[str, str] = {}
    for _, (name, value) in file.keyed_texts(
        "TARGET_INFO_SYSTEM_ENV", "nameEnum", ("name", "value")
    ):
        system.setdefault(name, value)
    user: dict[str, Any] = {}
    for table in ("META_DATA_CAPTURE", "META_DATA_EXPORT"):
        for _, (name, value) in file.keyed_texts(table, "id", ("name", "value")):
            if len(user) < 200:
                user[name] = value
    began = file.integers("TARGET_INFO_SESSION_START_TIME", ("utcEpochNs",))[0]
    offset = int(began[0]) if len(began) and abs(int(began[0])) <= LATEST_NS else 0
    return TraceInfo(
        PRODUCER,
        wall_offset_ns=offset,
        host=next((value for name, value in system.items() if name.lower() == "hostname"), ""),
        devices=_devices(file),
        user={"Nsight Systems": user} if user else {},
    )


def _devices(file: SqliteFile) -> list[dict[str, Any]]:
    columns = ("id", "totalMemory", "smCount", "computeMajor", "computeMinor", "memoryBandwidth")
    numbers = file.integers("TARGET_INFO_GPU", columns).T.tolist()
    names = [texts[0] for _, texts in file.keyed_texts("TARGET_INFO_GPU", "id", ("name",))]
    pairs = file.integers("TARGET_INFO_CUDA_DEVICE", ("gpuId", "cudaId"))
    number_of = dict(zip(pairs[0].tolist(), pairs[1].tolist(), strict=True))
    keys = ("totalGlobalMem", "numSms", "computeMajor", "computeMinor", "memoryBandwidth")
    devices = []
    for name, (gpu, *values) in zip(names, numbers, strict=False):
        described: dict[str, Any] = {"id": number_of.get(gpu, gpu), "name": name}
        described |= {k: v for k, v in zip(keys, values, strict=True) if v != ABSENT}
        devices.append(described)
    return devices
