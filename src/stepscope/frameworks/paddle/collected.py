"""What Paddle recorded, as plain data for a stream, and its conversion to columns."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from stepscope.frameworks.paddle.inputs import NotedInputs
from stepscope.record.journal import bytes_of, pieces

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from stepscope.record.journal import Journal
    from stepscope.trace.model import Track
    from stepscope.trace.schema import Captured

_MAX_OFFSET_NS = 1 << 62
_CALL_BYTES = 32  # per call, in NotedInputs.calls


@dataclass(frozen=True, slots=True)
class Collected:
    """What Paddle recorded, as plain data that a stream can hold."""

    segments: Sequence[tuple[int, bytes]]  # the offset of Unix time, and Paddle's protobuf
    has_memory: bool
    inputs: NotedInputs

    def note(self, journal: Journal) -> None:
        for number, (offset_ns, data) in enumerate(self.segments):
            about = {"segment": number, "offset_ns": offset_ns, "has_memory": self.has_memory}
            for piece in pieces(data):
                journal.add({**about, "data": piece})
        operators, inputs = list(self.inputs.operators), list(self.inputs.inputs)
        journal.add({"operators": operators, "inputs": inputs})
        for piece in pieces(self.inputs.calls):
            journal.add({"calls": piece})

    @staticmethod
    def of(entries: Sequence[Mapping[str, Any]]) -> Collected:
        """Restore what ``note`` wrote, without malformed entries."""
        segments: dict[int, tuple[int, bytearray]] = {}
        for entry in entries:
            number, offset_ns = entry.get("segment"), entry.get("offset_ns")
            if type(number) is int and type(offset_ns) is int and abs(offset_ns) < _MAX_OFFSET_NS:
                segments.setdefault(number, (offset_ns, bytearray()))[1].extend(
                    bytes_of(entry.get("data"))
                )
        return Collected(
            [(offset_ns, bytes(data)) for offset_ns, data in segments.values()],
            any(entry.get("has_memory") is True for entry in entries),
            _inputs_of(entries),
        )

    def captured(self, thread_names: Mapping[int, str], pid: int) -> Captured | None:
        """Return the columns on our clock; ``pid`` is the process that recorded."""
        if not self.segments:
            return None
        from stepscope.frameworks.paddle.result_columns import captured_from_pb
        from stepscope.frameworks.paddle.ties import with_inputs
        from stepscope.trace.join import merge_parts
        from stepscope.trace.model import Memory

        parts = [captured_from_pb(data, shift_ns=-offset_ns) for offset_ns, data in self.segments]
        if not self.has_memory:  # a simultaneous recording may have enabled it
            parts = [replace(part, memory=Memory.empty()) for part in parts]
        captured = _with_own_threads(merge_parts(parts), thread_names, pid)
        return with_inputs(captured, self.inputs)


def _inputs_of(entries: Sequence[Mapping[str, Any]]) -> NotedInputs:
    calls = b"".join(bytes_of(entry["calls"]) for entry in entries if "calls" in entry)
    names = next((entry for entry in entries if "operators" in entry), {})
    operators = [
        operator for operator in _listed(names.get("operators")) if isinstance(operator, str)
    ]
    inputs = [pairs for pairs in _listed(names.get("inputs")) if isinstance(pairs, dict)]
    if len(operators) != len(inputs):
        return NotedInputs()
    return NotedInputs(calls[: len(calls) - len(calls) % _CALL_BYTES], operators, inputs)


def _listed(value: object) -> list[Any]:
    return value if isinstance(value, list) else []


def _with_own_threads(captured: Captured, names: Mapping[int, str], pid: int) -> Captured:
    """Describe the process's own threads in the way the recorder does."""
    from stepscope.record.capture import thread_track
    from stepscope.trace.model import NO_THREAD

    def described(track: Track) -> Track:
        if track.pid != str(pid):
            return track
        tid = int(track.tid)
        return thread_track(tid, NO_THREAD, names.get(tid) or track.thread_name)

    return replace(captured, tracks=tuple(map(described, captured.tracks)))
