"""The server's view of a folder: its traces, their figures, and their reports on demand."""

from __future__ import annotations

import itertools
import tempfile
import threading
import time
import warnings
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from functools import partial
from pathlib import Path
from queue import PriorityQueue
from typing import Any, Self

import numpy as np

from stepscope.analysis.base.shared import shared_analyses
from stepscope.analysis.device.busy import device_busy
from stepscope.analysis.host.step_operators import step_operators
from stepscope.analysis.memory.timeline import memory_peak
from stepscope.analysis.steps.ledger import ledger
from stepscope.analysis.steps.phases import without_compilation
from stepscope.analysis.steps.steps import steady_steps, step_table
from stepscope.errors import StepscopeError, TraceReadWarning
from stepscope.formats import export_trace, read_trace
from stepscope.trace.model import Trace
from stepscope.view.folder import Folder, Listing, TraceFile
from stepscope.view.growing import Growing, Watched, is_recording

_LONGEST_NAME = 200


@dataclass(frozen=True, slots=True)
class Figures:
    """What the list shows of a trace; None for an unknown figure."""

    events: int
    lost_events: int
    duration_ns: int
    steps: int
    median_step_ns: int | None
    device_busy: float | None  # the share of the recorded time, 0 to 1, the mean of all devices
    peak_bytes: int | None
    peak_device: str
    top_operator: str  # by self time on devices, or on the host without device work
    top_share: float | None  # of a step, or of a run without steps


def key_figures(trace: Trace) -> Figures:
    with shared_analyses():
        return _figures(trace)


def _figures(trace: Trace) -> Figures:
    busy = device_busy(trace)
    most = memory_peak(trace)
    steps, median_ns = _steps(trace)
    name, share = _top_operator(trace)
    window_ns = int(busy.window_ns.sum())
    return Figures(
        events=len(trace),
        lost_events=trace.losses.events,
        duration_ns=_duration_ns(trace),
        steps=steps,
        median_step_ns=median_ns,
        device_busy=float(busy.busy_ns.sum() / window_ns) if window_ns else None,
        peak_bytes=most.bytes if most else None,
        peak_device=most.device if most else "",
        top_operator=name if len(name) <= _LONGEST_NAME else name[: _LONGEST_NAME - 1] + "…",
        top_share=share,
    )


def _duration_ns(trace: Trace) -> int:
    window_ns = trace.info.end_ns - trace.info.start_ns
    if window_ns > 0 or not len(trace):
        return max(0, window_ns)
    return int(trace.slices.end_ns.max() - trace.slices.start_ns[0])


def _steps(trace: Trace) -> tuple[int, int | None]:
    """Return the number of steps, and the median duration of the steady ones."""
    steps, steady = step_table(trace), steady_steps(trace)
    times_ns = without_compilation(trace, steps.start_ns, steps.duration_ns)[steady]
    return len(steps), int(np.median(times_ns)) if len(times_ns) else None


def _top_operator(trace: Trace) -> tuple[str, float | None]:
    rows, whole_ns = step_operators(trace), ledger(trace).whole_ns
    for own_ns in (rows.device_ns, rows.self_ns):
        if own_ns.any():
            top = int(np.argmax(own_ns))
            return rows.name[top], min(float(own_ns[top]) / whole_ns, 1.0) if whole_ns else None
    return "", None


_FRESH_S = 1.0  # several pages may ask at once
_REPORTS_KEPT = 16
_HTML, _PERFETTO = ".html", ".pftrace"
_DOING = {_HTML: "building the report", _PERFETTO: "writing it for Perfetto"}

Job = Callable[[], None]

_LAST_WORD = (-1, 0, None)  # before all that is still waiting


@dataclass(slots=True)
class Digest:
    figures: Figures | None = None
    error: str = ""
    notes: tuple[str, ...] = ()


@dataclass(slots=True)
class Report:
    """A report that is being built, or is ready."""

    doing: str = "waiting"
    done: int = 0
    total: int = 0
    file: Path | None = None  # when it is ready
    error: str = ""


class _ClosedError(Exception):
    """The result is no longer needed."""


@dataclass(slots=True)
class _State:
    """State that threads share, guarded by ``lock``."""

    listing: Listing = field(default_factory=lambda: Listing(()))
    looked_at_s: float = float("-inf")
    digests: dict[TraceFile, Digest] = field(default_factory=dict)
    # Reports and exports by suffix, in order of their last request.
    reports: dict[tuple[TraceFile, str], Report] = field(default_factory=dict)
    lock: threading.Lock = field(default_factory=threading.Lock)


class Library:
    """A folder's traces; a thread reads their figures, and builds reports first."""

    def __init__(self, folder: Folder, fresh_s: float = _FRESH_S) -> None:
        """Scan the folder at most every ``fresh_s`` seconds."""
        self.folder = folder
        self._fresh_s = fresh_s
        self._state = _State()
        self._closed = threading.Event()
        self._reports = tempfile.TemporaryDirectory(prefix="stepscope-view-")
        self._worker = _Worker("stepscope view")
        self._watched = Watched()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Stop the work in progress, and remove the reports."""
        self._closed.set()
        self._worker.close()
        self._watched.close()
        self._reports.cleanup()

    def traces(self) -> tuple[list[tuple[TraceFile, Digest]], str]:
        """Return the current traces, the newest first, and why some may be missing."""
        state = self._state
        with state.lock:
            self._look()
            return [(listed, state.digests[listed]) for listed in state.listing.traces], (
                state.listing.left_out
            )

    def report(self, name: str) -> Report | None:
        """Return the report of a listed trace, started if need be; None for an unknown name.

        No name from outside ever becomes a path.
        """
        return self._request(name, _HTML)

    def perfetto(self, name: str) -> Report | None:
        """Return the trace with that name as a file for Perfetto, as ``report`` does."""
        return self._request(name, _PERFETTO)

    def growing(self, name: str) -> Growing | None:
        """Return the recording with that name; None when there is none, or it has ended."""
        with self._state.lock:
            self._look()
            listed = self._file_named(name)
        if listed is None or not listed.is_recording:
            return None
        path = self.folder.root / listed.name
        # A listing is up to a second old.
        return self._watched.at(path, printable(Path(name).name)) if is_recording(path) else None

    def _file_named(self, name: str) -> TraceFile | None:
        return next((listed for listed in self._state.listing.traces if listed.name == name), None)

    def _request(self, name: str, suffix: str) -> Report | None:
        state = self._state
        with state.lock:
            self._look()
            listed = self._file_named(name)
            if listed is None:
                return None
            report = state.reports.pop((listed, suffix), None)
            if report is None:
                report = Report()
                self._worker.submit(partial(self._build, listed, report, suffix), urgent=True)
            state.reports[listed, suffix] = report
            self._forget_old_reports()
            return report

    def _look(self) -> None:
        """Scan the folder unless that was just done; the caller holds the lock."""
        state, now_s = self._state, time.monotonic()
        if now_s - state.looked_at_s < self._fresh_s:
            return
        state.listing = self.folder.listing()
        state.looked_at_s = now_s
        digests, state.digests = state.digests, {}
        for listed in state.listing.traces:
            digest = state.digests[listed] = digests.get(listed) or Digest()
            if listed not in digests and not listed.is_recording:
                self._worker.submit(partial(self._find_out, listed, digest))

    def _forget_old_reports(self) -> None:
        reports = self._state.reports
        ended = [listed for listed, report in reports.items() if report.file or report.error]
        for listed in ended[: max(0, len(reports) - _REPORTS_KEPT)]:
            file = reports.pop(listed).file
            if file is not None:
                file.unlink(missing_ok=True)  # a response in progress keeps it open

    def _find_out(self, listed: TraceFile, digest: Digest) -> None:
        with self._state.lock:
            if listed not in self._state.digests:
                return  # the trace was replaced or removed while the job waited
        try:
            trace, notes = self._read(listed, lambda _done, _total: None)
            if notes and not len(trace):
                digest.error = printable(notes[0])  # nothing was readable
            else:
                digest.notes, digest.figures = notes, key_figures(trace)
        except Exception as error:
            digest.error = self._error_line(listed, error)

    def _build(self, listed: TraceFile, report: Report, suffix: str) -> None:
        def tell(done: int, total: int) -> None:
            self._stop_when_closed()
            report.done, report.total = done, total

        try:
            report.doing = "reading the trace"
            trace, _ = self._read(listed, tell)
            report.doing, report.done = _DOING[suffix], 0
            with tempfile.NamedTemporaryFile(
                dir=self._reports.name, suffix=suffix, delete=False
            ) as file:
                path = Path(file.name)
            if suffix == _PERFETTO:
                export_trace(trace, path, tell)
            else:
                self._write_report(listed, trace, path, tell)
            report.file = path
        except Exception as error:
            report.error = self._error_line(listed, error)

    def _write_report(
        self, listed: TraceFile, trace: Trace, path: Path, tell: Callable[[int, int], None]
    ) -> None:
        from stepscope.report.build import export_html

        roots = (self.folder.path_of(listed).absolute().parent, Path.cwd())
        title = printable(Path(listed.name).name)
        export_html(trace, path, tell, title=title, source=roots)

    def _read(
        self, listed: TraceFile, tell: Callable[[int, int], None]
    ) -> tuple[Trace, tuple[str, ...]]:
        def watched(done: int, total: int) -> None:
            self._stop_when_closed()
            tell(done, total)

        self._stop_when_closed()
        path = self.folder.path_of(listed)
        # Filters are global, but no other thread reads traces.
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("ignore")
            warnings.simplefilter("always", TraceReadWarning)
            trace = read_trace(path, watched)
        notes = (self._without_folder(str(warning.message)) for warning in caught)
        return trace, tuple(notes)

    def _stop_when_closed(self) -> None:
        if self._closed.is_set():
            raise _ClosedError

    def _error_line(self, listed: TraceFile, error: Exception) -> str:
        """Return an error as one line; one that is not the file's fault includes its type."""
        if isinstance(error, StepscopeError):
            text = self._without_folder(str(error))
        else:
            text = f"{listed.name}: {type(error).__name__}: {error}"
        return printable(" ".join(text.split()))

    def _without_folder(self, text: str) -> str:
        return text.replace(f"{self.folder.root}/", "")


def printable(text: str) -> str:
    """Replace the parts of a file's name that are not Unicode."""
    return text.encode("utf-8", "surrogateescape").decode("utf-8", "replace")


def as_json(listed: TraceFile, digest: Digest) -> dict[str, Any]:
    """Return a trace as the page receives it."""
    return {
        "name": printable(listed.name),
        "written_ms": listed.written_ns // 1_000_000,
        "bytes": listed.size,
        "recording": listed.is_recording,
        "figures": asdict(digest.figures) if digest.figures else None,
        "error": digest.error,
        "notes": [printable(note) for note in digest.notes],
    }


class _Worker:
    """Does one job at a time: two large traces at once could exhaust the machine's memory."""

    def __init__(self, name: str) -> None:
        self._jobs: PriorityQueue[tuple[int, int, Job | None]] = PriorityQueue()
        self._number = itertools.count()
        self._thread = threading.Thread(target=self._work, name=name, daemon=True)
        self._thread.start()

    def submit(self, job: Job, *, urgent: bool = False) -> None:
        """Queue a job, which must not raise."""
        self._jobs.put((0 if urgent else 1, next(self._number), job))

    def close(self) -> None:
        """Wait for the current job, and drop the others."""
        self._jobs.put(_LAST_WORD)
        self._thread.join()

    def _work(self) -> None:
        while (job := self._jobs.get()[2]) is not None:
            job()
