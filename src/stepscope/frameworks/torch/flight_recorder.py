"""Reads PyTorch's flight recorder: the process's last collectives, also those called in C++.

DDP's reducer calls its collectives in C++, which cannot be patched. The flight recorder, on by
default in newer releases, keeps group, number, sizes and types of the last 2,000. It is read after
the recording.
"""

from __future__ import annotations

import pickle
import sys
from contextlib import suppress
from math import prod
from typing import TYPE_CHECKING, Any

from stepscope import _native
from stepscope.record.collectives import Collective
from stepscope.trace.names import plain_collective

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

_TOLERANCE_NS = 200_000  # between the recorder's Unix time and our clock
_DUMPS = ("_dump_fr_trace", "_dump_nccl_trace")


def recorded_flights() -> list[Collective]:
    """Return the collectives that the flight recorder still has, in the order of their calls."""
    c10d: Any = sys.modules.get("torch._C._distributed_c10d")
    for name in _DUMPS:
        dump = getattr(c10d, name, None)
        if dump is None:
            continue
        with suppress(Exception):  # it is off or has another format
            entries = pickle.loads(dump(True, False, False))["entries"]  # torch's own, in memory
            flights = [flight for entry in entries if (flight := _flight(entry)) is not None]
            if flights:
                return sorted(flights, key=lambda flight: flight.start_ns)
    return []


def _flight(entry: dict[str, Any]) -> Collective | None:
    _, _, title = str(entry["profiling_name"]).partition(":")
    start_ns = int(entry["time_created_ns"]) - _native.wall_offset_ns()
    is_p2p = bool(entry.get("is_p2p"))
    dtypes = entry["input_dtypes"] or entry["output_dtypes"] or [None]
    has_sizes = bool(entry["input_sizes"] or entry["output_sizes"])
    return Collective(
        plain_collective(title),
        start_ns,
        start_ns,
        thread="",
        group=str(entry["process_group"][0]),
        number=None if is_p2p else int(entry["collective_seq_id"]),
        elements_in=_elements(entry["input_sizes"]) if has_sizes else None,
        elements_out=_elements(entry["output_sizes"]) if has_sizes else None,
        dtype=dtypes[0],
    )


def _elements(sizes: Iterable[Sequence[int]]) -> int:
    return sum(prod(size) for size in sizes)


def complete_calls(calls: Sequence[Collective], flights: Sequence[Collective]) -> None:
    """Complete the calls of a recording, in order, with what the flight recorder knows."""
    by_number = {
        (flight.group, flight.number): flight for flight in flights if flight.number is not None
    }
    at = 0
    for call in calls:
        exact = by_number.get((call.group, call.number)) if call.number is not None else None
        if exact is not None:
            call.take(exact)
            continue
        while at < len(flights) and flights[at].start_ns < call.start_ns - _TOLERANCE_NS:
            at += 1
        for flight in flights[at : at + 8]:
            if flight.start_ns > call.end_ns + _TOLERANCE_NS:
                break
            is_alike = plain_collective(flight.name) == plain_collective(call.name)
            if is_alike and not _is_taken(flight):
                call.take(flight)
                flight.end_ns = -1
                break


def _is_taken(flight: Collective) -> bool:
    return flight.end_ns < 0
