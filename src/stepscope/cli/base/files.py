"""Reading and writing traces for the verbs: progress, one-line warnings, no file overwritten."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from stepscope.cli.base.progress import Progress
from stepscope.cli.base.rank_folder import ranks_in
from stepscope.errors import StepscopeError, TraceReadWarning
from stepscope.formats.base.registry import export_trace, read_trace, suffix_of
from stepscope.notices import notify
from stepscope.record.stream.places import is_unsealed
from stepscope.trace.placing import TRACE_SUFFIX
from stepscope.trace.regular_file import entries_of
from stepscope.trace.store import is_stored_trace
from stepscope.units import count_text

if TYPE_CHECKING:
    from stepscope.trace.model import Trace

REPORT_SUFFIX = ".html"


def read(path: str) -> Trace:
    """Read a trace of any format; each problem of the file is reported in one line."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", TraceReadWarning)
        with Progress(f"reading {path}") as progress:
            trace = _sealed(path) if is_unsealed(path) else read_trace(path, progress)
    for warning in caught:
        notify(str(warning.message))
    return trace


def _sealed(path: str) -> Trace:
    from stepscope.record.read_back.sealing import sealed  # it imports NumPy

    return sealed(Path(path))


def traces_in(path: str) -> list[str]:
    """Return the trace itself, or the saved traces in a folder of them."""
    folder = Path(path)
    if not folder.is_dir() or is_stored_trace(folder):
        return [path]
    return [str(entry) for entry in entries_of(folder) if is_stored_trace(entry)] or [path]


def check_output(path: Path, *, force: bool) -> None:
    """Raise StepscopeError when a trace could not be written to ``path``."""
    suffix_of(path)
    parent = path.absolute().parent
    if not parent.is_dir():
        raise StepscopeError(f"{path}: the folder {parent} does not exist; create it")
    if path.is_file() and path.name.lower().endswith(TRACE_SUFFIX):
        raise StepscopeError(f"{path} is a file, but a trace is a folder; choose another name")
    check_folder(path, force=force)


def check_folder(path: Path, *, force: bool) -> None:
    """Raise StepscopeError when what is at ``path`` must not be replaced."""
    if path.is_dir() and not (is_stored_trace(path) or is_unsealed(path) or ranks_in(path)):
        raise StepscopeError(f"{path} is a folder but not a saved trace; choose another name")
    if not force and (path.is_file() or path.is_dir()):
        raise StepscopeError(f"{path} exists; add --force to replace it, or choose another name")


def write(trace: Trace, path: Path, *, force: bool) -> None:
    """Write a trace in the format that the suffix of ``path`` names."""
    with Progress(f"writing {path}") as progress:
        if path.name.lower().endswith(TRACE_SUFFIX):
            trace.save(path, progress, overwrite=force)
        else:
            export_trace(trace, path, progress)


def report_beside(trace: Path) -> Path:
    """Return the default path of a trace's report."""
    name = trace.name.removesuffix(".gz").removesuffix(".json").removesuffix(".pb")
    return trace.with_name(f"{name.removesuffix(TRACE_SUFFIX)}{REPORT_SUFFIX}")


def write_report(trace: Trace, path: Path, *, title: str, source: Sequence[Path]) -> str:
    """Write the report of a trace; return in words how much of the trace it holds.

    It holds the text of the user's files in the folders ``source``.
    """
    from stepscope.report.build import export_html, reported

    trace = reported(trace)  # a big trace is freed as far as the report does not need it
    with Progress(f"writing {path}") as progress:
        left_out = export_html(trace, path, progress, title=title, source=source)
    events = count_text(len(trace), "event")
    return f"{len(trace) - left_out:,} of {events} in its timeline" if left_out else events
