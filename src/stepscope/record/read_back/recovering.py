"""What one process of a run left in its stream, as tables and as a Trace."""

from __future__ import annotations

import os
from dataclasses import dataclass, fields, replace
from typing import TYPE_CHECKING, Any

from stepscope import _native
from stepscope.record.capture import recorded
from stepscope.record.held_memory import HeldMemory
from stepscope.record.slice_table import SliceTable
from stepscope.record.source import source_classes
from stepscope.record.stream.notes import END, FACTS, PATHS, SOURCES
from stepscope.record.window import range_overhead_ns
from stepscope.trace.build import build, since
from stepscope.trace.join import merge_parts
from stepscope.trace.model import PRODUCER, Captured, Losses, Slices, Trace, TraceInfo
from stepscope.trace.process_facts import facts_of
from stepscope.trace.strings import Strings
from stepscope.trace.validate import check
from stepscope.units import count_text

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from stepscope.record.stream.left_behind import LeftBehind

    Progress = Callable[[int, int], None]

_OF_FILES = ("cwd", "main_file", "path")  # facts that name files

# Without a tmpfs, memory is written to disk several times a second.
_MOST_UNSAVED = "up to one second before its end may be missing"


@dataclass(frozen=True, slots=True)
class ProcessCapture:
    """What one process recorded."""

    captured: Captured
    start_ns: int
    end_ns: int
    losses: Losses
    is_ring: bool = False

    def with_tables(self, captured: Captured) -> ProcessCapture:
        return replace(self, captured=captured)

    def since(self, start_ns: int) -> ProcessCapture:
        """Return the events that began at a time or later."""
        if start_ns <= self.start_ns:
            return self
        return replace(self, captured=since(self.captured, start_ns), start_ns=start_ns)

    def with_whole_run(self, pid: int, name: str, *, ended: bool) -> ProcessCapture:
        """Add a range over the whole main thread."""
        table = SliceTable("user_annotation")
        table.add(pid, name, self.start_ns, self.end_ns, {}, unfinished=not ended)
        return self.with_tables(merge_parts([self.captured, _of_process(table.captured(), pid)]))


def captured_of(remains: LeftBehind) -> ProcessCapture:
    """Return the tables of one process, its window, and its losses."""
    remains.use_paths()
    recordings = remains.native.recordings()
    is_ring = any(columns["is_ring"] for columns in recordings)
    windows = [
        recorded(
            columns,
            remains.thread_names,
            stack_table=remains.native.stack_table,
            type_names=remains.native.types(),
        )
        for columns in recordings
    ]
    windows = [window for window in windows if len(window.captured.slices) or window is windows[0]]
    classes = source_classes()
    parts = [window.captured for window in windows]
    recovered = [HeldMemory.recover(remains), *(source.recover(remains) for source in classes)]
    parts += [part for part in recovered if part is not None]
    parts += [delivery.captured for delivery in remains.delivered()]
    if not parts:
        parts = [Captured(Slices.empty(), (), Strings.of([""]))]
    start_ns = min((window.start_ns for window in windows), default=0)
    end_ns = max([window.end_ns for window in windows] + [remains.facts["last_ns"]])
    lost = remains.facts["bad_records"] + sum(source.lost_by(remains) for source in classes)
    if is_ring:  # the parts may reach back further than the ring
        recent = [since(part, start_ns) for part in parts]
        lost += sum(len(part.slices) for part in parts) - sum(len(part.slices) for part in recent)
        parts = recent
    captured = _of_process(merge_parts(parts), remains.pid, remains.thread_names)
    for source in classes:
        captured = source.refine_recovered(captured, remains)
    for ends_ns in (
        captured.slices.start_ns + captured.slices.duration_ns,
        captured.samples.end_ns,
    ):
        end_ns = max(end_ns, int(ends_ns.max(initial=0)))
    return ProcessCapture(
        captured, start_ns, max(start_ns, end_ns), _losses(recordings, lost), is_ring
    )


def _losses(recordings: Sequence[Mapping[str, Any]], lost_elsewhere: int) -> Losses:
    """Return the losses of the first recording that lost events, plus those elsewhere."""
    first = next(
        (columns for columns in recordings if columns["lost"]), next(iter(recordings), None)
    )
    if first is None:
        return Losses.at_limit(lost_elsewhere, 0, keep_newest=False, is_ring=False)
    return Losses.at_limit(
        first["lost"] + lost_elsewhere,
        first["limit_bytes"],
        keep_newest=first["keep_newest"],
        is_ring=first["is_ring"],
    )


def trace_of(remains: LeftBehind, capture: ProcessCapture, children: int = 0) -> Trace:
    """Return the trace of a process; its tables may include those of ``children``."""
    if not remains.folders.is_ours:
        check(capture.captured, {}, is_built=False)
    info_fields = {field.name for field in fields(TraceInfo)}
    by_sources = remains.meta.get(SOURCES, {})
    by_process = facts_of(_noted_facts(remains), by_sources.get("job"))
    facts = {
        **by_process,
        **{name: value for name, value in by_sources.items() if name in info_fields},
        "parallelism": {**by_process["parallelism"], **by_sources.get("parallelism", {})},
    }
    sources = dict(facts.get("sources", {}))
    sources |= {
        source.name: says for source in source_classes() if (says := source.described_by(remains))
    }
    if children:
        sources["child processes"] = f"{children} recorded"
    if (missing := missing_of(remains)) or END not in remains.meta:
        sources["stream"] = missing or "nothing is missing"
    info = TraceInfo(
        **{
            **facts,
            "pid": remains.pid,
            "wall_offset_ns": facts["wall_offset_ns"] or _native.wall_offset_ns(),
            "producer": PRODUCER,
            "start_ns": capture.start_ns,
            "end_ns": capture.end_ns,
            "losses": capture.losses,
            "overhead_ns": range_overhead_ns(),
            "sources": sources,
            "code_folders": _code_folders(remains),
        }
    )
    return build(capture.captured, info)


def _code_folders(remains: LeftBehind) -> list[str]:
    """Return where the program's own modules were imported from."""
    noted = remains.meta.get(PATHS, {}).get("told")
    prefixes = noted[0] if isinstance(noted, list) and noted and isinstance(noted[0], list) else []
    return [
        prefix for prefix in prefixes if isinstance(prefix, str) and "site-packages" not in prefix
    ]


def _noted_facts(remains: LeftBehind) -> dict[str, Any]:
    """Return the facts of a process; without paths if it was another user's."""
    facts: dict[str, Any] = remains.meta.get(FACTS, {})
    if remains.folders.is_ours:
        return facts
    return {name: value for name, value in facts.items() if name not in _OF_FILES}


def _of_process(
    captured: Captured, pid: int, thread_names: Mapping[int, str] | None = None
) -> Captured:
    """Assign tables that this process built to the process that recorded them."""
    own, names = str(os.getpid()), {str(key): name for key, name in (thread_names or {}).items()}
    tracks = tuple(
        replace(
            track,
            pid=str(pid),
            process_sort=pid,
            thread_name=track.thread_name or names.get(track.tid, ""),
        )
        if track.pid == own
        else track
        for track in captured.tracks
    )
    return replace(captured, tracks=tracks)


def missing_of(remains: LeftBehind) -> str:
    """Return what is missing of a process's recording; empty for nothing."""
    facts = remains.facts
    missing = []
    if not facts["memory_lasted"]:
        where = "its memory is gone" if remains.folders.memory else "there was no tmpfs"
        missing.append(f"{where}, {_MOST_UNSAVED}")
    if facts["damaged_bytes"]:
        missing.append(f"{count_text(facts['damaged_bytes'], 'byte')} of its files are damaged")
    return "; ".join(missing)
