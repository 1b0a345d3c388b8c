"""What torch.profiler writes into its JSON beyond the events, derived for our own recordings."""

from __future__ import annotations

import hashlib
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import numpy as np

from stepscope.trace.model import (
    NO_CORRELATION,
    NO_SEQUENCE,
    PRODUCER,
    Args,
    IntColumn,
    SliceFlags,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from stepscope.trace.model import Int64, Trace, TraceInfo


def is_recording(trace: Trace) -> bool:
    """Tell a recording of ours from a trace that another tool wrote."""
    return trace.info.producer == PRODUCER


def recording_header(trace: Trace, trace_name: str) -> dict[str, Any]:
    """Return the top-level keys of a recording: what we know, then the user's own.

    A key of the user's that would replace one of ours is kept under ``user.<key>``; only the
    trace's id is theirs to choose.
    """
    info = trace.info
    header: dict[str, Any] = {"schemaVersion": 1, "deviceProperties": []}
    if info.rank is not None:
        header["distributedInfo"] = {"rank": info.rank, "world_size": info.world_size}
    header |= {
        "trace_id": str(info.user.get("trace_id", _trace_id(info))),
        "host_name": info.host,
        "displayTimeUnit": "ms",
        "baseTimeNanoseconds": info.wall_offset_ns,
        "stepscope": _provenance(info),
    }
    if trace_name:
        header["traceName"] = trace_name
    reserved = {*header, "traceEvents"}
    for key, value in info.user.items():
        if key != "trace_id":
            header[f"user.{key}" if key in reserved else key] = value
    return header


def _trace_id(info: TraceInfo) -> str:
    """Return an id that two exports of one trace share."""
    seed = f"{info.host} {info.pid} {info.start_ns + info.wall_offset_ns} {info.end_ns}"
    return hashlib.blake2b(seed.encode(), digest_size=16).hexdigest().upper()


def _provenance(info: TraceInfo) -> dict[str, Any]:
    return {
        "versions": dict(info.versions),
        "sources": dict(info.sources),
        "start_ns": info.start_ns,
        "end_ns": info.end_ns,
        "pid": info.pid,
        "losses": asdict(info.losses),
        "overhead_ns": info.overhead_ns,
        "anomalies": dict(info.anomalies),
    }


def derived_args(trace: Trace) -> Args:
    """Return the slices' arguments with those that torch.profiler gives every event."""
    kept = trace.slices.args
    derived = {key: column for key, column in _columns(trace) if key not in kept.integers}
    return Args({**derived, **kept.integers}, kept.rest)


def _columns(trace: Trace) -> Iterator[tuple[str, IntColumn]]:
    slices = trace.slices
    rows = np.arange(len(slices), dtype=np.uint32)
    index = np.arange(len(slices), dtype=np.int64)
    yield "External id", IntColumn(rows, index + 1)
    numbered = slices.sequence != NO_SEQUENCE
    yield "Sequence number", _where(numbered, slices.sequence)
    # Stands wherever a sequence number does, as in torch's files: 0 says "a forward operator".
    yield "Fwd thread id", _where(numbered, np.maximum(slices.forward_thread, 0))
    yield "correlation", _where(slices.correlation != NO_CORRELATION, slices.correlation)
    yield "Ev Idx", IntColumn(rows, index)
    unfinished = np.flatnonzero(slices.flags & SliceFlags.UNFINISHED)
    yield "Unfinished", IntColumn(unfinished.astype(np.uint32), np.ones(len(unfinished), np.int64))


def _where(chosen: NDArray[np.bool_], values: Int64) -> IntColumn:
    rows = np.flatnonzero(chosen)
    return IntColumn(rows.astype(np.uint32), values[rows])
