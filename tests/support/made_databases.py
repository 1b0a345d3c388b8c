"""SQLite files as Nsight Systems, rocprofv3 and rocmProfileData write them, by their schemas."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

PID, TID = 4242, 4243
GLOBAL_PID = 1 << 56 | PID << 24
GLOBAL_TID = GLOBAL_PID | TID
GUID = "00000d5a_1234_7abc"

_WORK = "start end deviceId contextId streamId correlationId globalPid"
_NSIGHT = {
    "StringIds": "id value:TEXT",
    "CUPTI_ACTIVITY_KIND_KERNEL": f"{_WORK} demangledName shortName gridX gridY gridZ blockX blockY"
    " blockZ staticSharedMemory dynamicSharedMemory registersPerThread graphNodeId",
    "CUPTI_ACTIVITY_KIND_MEMCPY": f"{_WORK} bytes copyKind srcKind dstKind",
    "CUPTI_ACTIVITY_KIND_MEMSET": f"{_WORK} bytes value memKind",
    "CUPTI_ACTIVITY_KIND_SYNCHRONIZATION": f"{_WORK} syncType",
    "CUPTI_ACTIVITY_KIND_RUNTIME": "start end globalTid correlationId nameId returnValue",
    "CUDA_GRAPH_EVENTS": "start end nameId globalTid graphNodeId originalGraphNodeId",
    "NVTX_EVENTS": "start end eventType globalTid endGlobalTid text:TEXT textId domainId",
    "ThreadNames": "nameId priority globalTid",
    "PROCESSES": "globalPid pid name:TEXT",
    "TARGET_INFO_GPU": "id name:TEXT totalMemory smCount computeMajor computeMinor",
    "TARGET_INFO_CUDA_DEVICE": "gpuId cudaId",
    "TARGET_INFO_SESSION_START_TIME": "utcEpochNs",
    "TARGET_INFO_SYSTEM_ENV": "nameEnum name:TEXT value:TEXT",
}
_ROCPD_PLACES = "pid tid start end"
_ROCPD = {
    "string": "id guid:TEXT string:TEXT",
    "info_node": "id hostname:TEXT",
    "info_process": "id pid command:TEXT",
    "info_thread": "id pid tid name:TEXT",
    "info_agent": "id type:TEXT type_index product_name:TEXT",
    "info_kernel_symbol": "id kernel_name:TEXT display_name:TEXT",
    "event": "id category_id stack_id correlation_id extdata:TEXT",
    "region": f"id {_ROCPD_PLACES} name_id event_id",
    "kernel_dispatch": f"id {_ROCPD_PLACES} agent_id kernel_id dispatch_id queue_id stream_id"
    " workgroup_size_x workgroup_size_y workgroup_size_z grid_size_x grid_size_y grid_size_z"
    " group_segment_size event_id",
    "memory_copy": f"id {_ROCPD_PLACES} name_id dst_agent_id src_agent_id size queue_id stream_id"
    " event_id",
    "memory_allocate": f"id {_ROCPD_PLACES} agent_id type:TEXT level:TEXT address size event_id",
}


def write_nsight(path: Path, steps: int = 3, *, without: Sequence[str] = ()) -> Path:
    """Write an export of Nsight Systems: a loop that launches, copies, fills and replays."""
    rows: dict[str, list[tuple[Any, ...]]] = {
        "StringIds": [
            (1, "void gemm<float>(float*)"), (2, "gemm"), (3, "cudaLaunchKernel_v7000"),
            (4, "registered"), (5, "MainThread"), (6, "cudaMemcpyAsync"), (7, "softmax"),
            (8, "cudaGraphKernelNode"),
        ],
        "CUDA_GRAPH_EVENTS": [
            (10, 12, 8, GLOBAL_TID, 77, None), (15, 16, 8, GLOBAL_TID, 99, 77),
        ],
        "ThreadNames": [(5, 10, GLOBAL_TID), (2, 0, GLOBAL_TID)],
        "PROCESSES": [(GLOBAL_PID, PID, "/usr/bin/python3")],
        "TARGET_INFO_GPU": [(3, "NVIDIA H200", 150 << 30, 132, 9, 0)],
        "TARGET_INFO_CUDA_DEVICE": [(3, 0)],
        "TARGET_INFO_SESSION_START_TIME": [(1_700_000_000_000_000_000,)],
        "TARGET_INFO_SYSTEM_ENV": [(1, "Hostname", "node7")],
    }  # fmt: skip
    for step in range(steps):
        at = 1000 + step * 10_000
        place = (0, 1, 7, 100 + step, GLOBAL_PID)
        shape = (8, 4, 1, 128, 1, 1, 1024, 512, 40, None)
        rows.setdefault("CUPTI_ACTIVITY_KIND_KERNEL", []).extend(
            [
                (at + 500, at + 1501 + step, *place, 1, 2, *shape),
                (at + 1400, at + 2000, 0, 1, 8, 200 + step, GLOBAL_PID, 7, 7, *shape[:-1], 99),
                (at + 10, at + 600, 1, 2, 7, 300 + step, GLOBAL_PID, 7, 7, *shape),
            ]
        )
        rows.setdefault("CUPTI_ACTIVITY_KIND_MEMCPY", []).append(
            (at + 2500, at + 2777, *place[:3], 400 + step, GLOBAL_PID, 4096, 1, 2, 3)
        )
        rows.setdefault("CUPTI_ACTIVITY_KIND_MEMSET", []).append(
            (at + 2600, at + 2650, *place[:3], 500 + step, GLOBAL_PID, 64, 0, 3)
        )
        rows.setdefault("CUPTI_ACTIVITY_KIND_SYNCHRONIZATION", []).append(
            (at + 3000, at + 3100, *place[:3], 600 + step, GLOBAL_PID, 3)
        )
        rows.setdefault("CUPTI_ACTIVITY_KIND_RUNTIME", []).extend(
            [
                (at, at + 90, GLOBAL_TID, 100 + step, 3, 0),
                (at + 100, at + 190, GLOBAL_TID, 400 + step, 6, 0),
            ]
        )
        rows.setdefault("NVTX_EVENTS", []).extend(
            [
                (at - 5, at + 5000, 59, GLOBAL_TID, None, f"step {step}", None, 0),
                (at - 4, at + 1000, 59, GLOBAL_TID, None, None, 4, 0),
                (at, None, 34, GLOBAL_TID, None, "a mark", None, 0),
            ]
        )
    rows["NVTX_EVENTS"].append((2000, None, 59, GLOBAL_TID, None, "never ends", None, 0))
    _write(path, {n: c for n, c in _NSIGHT.items() if n not in without}, rows)
    return path


def write_rocpd(path: Path, steps: int = 3, *, by_track: bool = False) -> Path:
    """Write a rocprofv3 database; ``by_track``: in the layout with timestamps and tracks."""
    rows: dict[str, list[tuple[Any, ...]]] = {
        "string": [
            (1, GUID, "HIP_RUNTIME_API_EXT"), (2, GUID, "hipLaunchKernel"),
            (3, GUID, "KERNEL_DISPATCH"), (4, GUID, "MEMORY_COPY_HOST_TO_DEVICE"),
            (5, GUID, "MARKER_CORE_RANGE_API"), (6, GUID, "roctxThreadRangeA"),
        ],
        "info_node": [(1, "amd1")],
        "info_process": [(1, PID, "/usr/bin/python3 train.py")],
        "info_thread": [(1, 1, TID, "main")],
        "info_agent": [(1, "CPU", 0, "EPYC"), (2, "GPU", 0, "MI300X"), (3, "GPU", 1, "MI300X")],
        "info_kernel_symbol": [(1, "_Z4gemmPf.kd", "gemm(float*)"), (2, "copy.kd", "")],
        "event": [], "region": [], "kernel_dispatch": [], "memory_copy": [], "memory_allocate": [],
    }  # fmt: skip
    for step in range(steps):
        at, stack = 1_000_000 + step * 50_000, 10 + step
        first = 4 * step + 1
        rows["event"] += [
            (first, 1, stack, 0, "{}"),
            (first + 1, 3, stack, 0, "{}"),
            (first + 2, 5, stack + 500, 0, f'{{"message": "step {step}"}}'),
            (first + 3, 4, stack + 900, 0, "{}"),
        ]
        rows["region"] += [
            (2 * step + 1, 1, 1, at, at + 900, 2, first),
            (2 * step + 2, 1, 1, at - 10, at + 40_000, 6, first + 2),
        ]
        rows["kernel_dispatch"] += [
            (2 * step + 1, 1, 1, at + 1000, at + 9001, 2, 1, step, 1, 3, 64, 1, 1, 640, 2, 1, 512,
             first + 1),
            (2 * step + 2, 1, 1, at + 8000, at + 9500, 3, 2, step, 1, 3, 64, 1, 1, 64, 1, 1, 0,
             None),
        ]  # fmt: skip
        rows["memory_copy"].append(
            (step + 1, 1, 1, at + 9100, at + 9999, 4, 2, 1, 1 << 20, 1, 3, first + 3)
        )
        rows["memory_allocate"] += [
            (2 * step + 1, 1, 1, at, at + 5, 2, "ALLOC", "REAL", 4096 * (step + 1), 1000, None),
            (2 * step + 2, 1, 1, at + 6, at + 7, 2, "FREE", "REAL", 4096 * step, 0, None),
        ]
    tables = dict(_ROCPD)
    if by_track:
        tables, rows = _by_track(tables, rows)
    suffix = f"_{GUID}"
    _write(
        path,
        {f"rocpd_{name}{suffix}": columns for name, columns in tables.items()},
        {f"rocpd_{name}{suffix}": part for name, part in rows.items()},
        views=[f'CREATE VIEW "rocpd_{n}" AS SELECT * FROM "rocpd_{n}{suffix}"' for n in tables],
    )
    return path


def _by_track(tables: Any, rows: Any) -> tuple[dict[str, str], dict[str, list[tuple[Any, ...]]]]:
    """Move times, threads and streams into tables of their own."""
    times: dict[int, int] = {}
    tracks: dict[tuple[Any, ...], int] = {}
    moved = ("pid", "tid", "agent_id", "queue_id", "stream_id")
    out_tables, out_rows = dict(tables), dict(rows)
    for name in ("region", "kernel_dispatch", "memory_copy", "memory_allocate"):
        columns = [item.partition(":")[0] for item in tables[name].split()]
        remaining = [
            c for c in tables[name].split() if c.partition(":")[0] not in (*moved, "start", "end")
        ]
        out_tables[name] = " ".join([*remaining, "start_id", "end_id", "track_id"])
        out_rows[name] = []
        for row in rows[name]:
            expected = dict(zip(columns, row, strict=True))
            track = tuple(expected.get(column) for column in moved)
            ends = [times.setdefault(expected[n], len(times) + 1) for n in ("start", "end")]
            number = tracks.setdefault(track, len(tracks) + 1)
            rest = [expected[column.partition(":")[0]] for column in remaining]
            out_rows[name].append((*rest, *ends, number))
    out_tables["timestamp"] = "id value"
    out_rows["timestamp"] = [(number, value) for value, number in times.items()]
    out_tables["track"] = "id " + " ".join(moved)
    out_rows["track"] = [(number, *key) for key, number in tracks.items()]
    return out_tables, out_rows


def write_rpd(path: Path) -> Path:
    """Write a file of rocmProfileData."""
    tables = {
        "rocpd_string": "id string:TEXT",
        "rocpd_api": "id pid tid start end apiName_id args_id",
        "rocpd_op": "id gpuId queueId sequenceId start end description_id opType_id",
        "rocpd_api_ops": "id api_id op_id",
    }
    rows = {
        "rocpd_string": [
            (1, ""), (2, "hipLaunchKernel"), (3, "KernelExecution"), (4, "gemm"),
            (5, "CopyHostToDevice"), (6, "UserMarker"), (7, "my range"),
        ],
        "rocpd_api": [(1, PID, TID, 100, 150, 2, 1), (2, PID, TID, 90, 900, 6, 7)],
        "rocpd_op": [(1, 0, 1, 0, 200, 301, 4, 3), (2, 0, 1, 0, 290, 420, 1, 5)],
        "rocpd_api_ops": [(1, 1, 1)],
    }  # fmt: skip
    _write(path, tables, rows)
    return path


def _write(path: Path, tables: Any, rows: Any, views: Sequence[str] = ()) -> None:
    with closing(sqlite3.connect(path)) as file:
        file.execute("PRAGMA page_size = 512")
        for table, result in tables.items():
            columns = [item.partition(":") for item in result.split()]
            declared = ", ".join(f'"{name}" {kind or "INTEGER"}' for name, _, kind in columns)
            file.execute(f'CREATE TABLE "{table}" ({declared})')
            marks = ", ".join("?" * len(columns))
            file.executemany(f'INSERT INTO "{table}" VALUES ({marks})', rows.get(table, ()))
        for view in views:
            file.execute(view)
        file.commit()
