"""Builds a page from a Trace: sections fill a payload, which is inlined with the modules."""

from __future__ import annotations

import base64
import html
import json
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import replace
from importlib.resources.abc import Traversable
from pathlib import Path

import numpy as np

from stepscope.analysis.base.shared import shared_analyses
from stepscope.analysis.code.source_files import program_folders
from stepscope.analysis.memory.by_event import MEMORY_NAME
from stepscope.analysis.memory.timeline import MemoryTimeline
from stepscope.analysis.memory.usage import with_memory
from stepscope.formats.base.files import gzipped, output_file
from stepscope.formats.base.registry import Progress
from stepscope.report.base.detail import MOST_SLICES, detail_of
from stepscope.report.base.payload import Payload
from stepscope.report.pages import MEMORY, PAGES, STATIC, Page, Section
from stepscope.report.sections.events import add_events, add_strings
from stepscope.report.sections.memory import add_memory
from stepscope.trace.keys import EVENT_INDEX, FORWARD_THREAD, SEQUENCE_NUMBER
from stepscope.trace.model import Trace

Folders = Mapping[str, Traversable | Path]  # by module prefix

MOST_SHARED = 4_000_000
"""Sections share analyses of smaller traces; those of a larger one would fill the memory."""

_NUMBERS = frozenset(
    {
        *("correlation", SEQUENCE_NUMBER, FORWARD_THREAD),
        *(EVENT_INDEX, "Python id", "Python parent id"),
        *("cbid", "context", "queued"),
    }
)
_PLACE = re.compile(r"\{\{(\w+)\}\}")
_PREFIX = "stepscope"  # of our modules in the page's import map
_BASE64_AT_ONCE = 3 << 20  # a multiple of 3, so that pieces have no padding


def export_html(
    trace: Trace,
    path: str | os.PathLike[str],
    progress: Progress | None = None,
    *,
    title: str = "",
    source: bool | Sequence[Path] = True,
    most_slices: int = MOST_SLICES,
) -> int:
    """Write the report of ``trace`` to ``path``: one file that needs no network.

    With ``source`` the page holds the text of the user's own files in which time was spent: those
    in the folders of the program that runs now, or in the folders that are given. Then it is
    readable by its owner alone. Its timeline holds ``most_slices`` at most, the longest of each
    moment; returns how many were left out. Sums are those of all slices.
    """
    tell = progress or (lambda _done, _all: None)
    title = title or _title(trace)
    trace = reported(trace)  # once, since all sections share analyses by Trace
    detail = detail_of(trace, most_slices)
    if isinstance(source, bool):
        source = program_folders() if source else ()
    payload = Payload(detail, with_code=bool(source), code_from=source)
    payload.add_value("left_out", detail.left_out)
    pages = tuple(PAGES)
    # Sections by slice come first: after them, the page's slices are freed.
    work: list[Section] = [add_events, *(page.section for page in pages if page.by_slice)]
    whole_from = len(work)
    work += [page.section for page in pages if not page.by_slice]
    left_out, its_trace = detail.left_out, detail.trace
    del detail
    with shared_analyses() if len(trace) <= MOST_SHARED else nullcontext():
        for done, section in enumerate(work):
            tell(done, len(work) + 1)
            if done == whole_from:
                payload.drop_slices()
                its_trace = trace
            with shared_analyses() if len(trace) > MOST_SHARED else nullcontext():
                section(its_trace, payload)
    tell(len(work), len(work) + 1)
    write_page(path, title, payload, pages, private=payload.with_code or trace.info.host in title)
    tell(len(work) + 1, len(work) + 1)
    return left_out


def reported(trace: Trace) -> Trace:
    """Return the trace with its memory as a table, and without marks that other columns repeat.

    A caller that keeps only this trace leaves memory for the sections of a big one.
    """
    trace = with_memory(trace)
    marks = trace.marks
    # Sections read flows from correlations and sequences, and memory from its table.
    spare = np.isin(marks.phase, [ord(letter) for letter in "stf"])
    if len(trace.memory):
        words = trace.strings.ids_of([MEMORY_NAME])
        spare |= np.isin(marks.name, list(words.values())) & (marks.phase == ord("i"))
    if spare.any():
        trace = replace(trace, marks=marks.take(~spare))
    return trace if len(trace) <= MOST_SHARED else _without_numbers(trace)


def _without_numbers(trace: Trace) -> Trace:
    """Drop arguments that number events or repeat a column, since no section reads them.

    Columns without a value take no memory, either.
    """
    slices, args = trace.slices, trace.slices.args
    shown = {key: column for key, column in args.integers.items() if key not in _NUMBERS}
    nothing = np.broadcast_to(np.uint32(0), len(slices))
    lean = replace(
        slices,
        args=replace(args, integers=shown),
        overload=slices.overload if slices.overload.any() else nothing,
        stack=slices.stack if slices.stack.any() else nothing,
    )
    return replace(trace, slices=lean)


def export_memory_html(timeline: MemoryTimeline, path: str | os.PathLike[str]) -> None:
    """Write the report's memory page alone, of the timeline's device."""
    payload = Payload()
    add_strings(timeline.trace, payload)
    add_memory(timeline.trace, payload, timeline.device)
    write_page(path, f"Memory of {timeline.device}", payload, (MEMORY,))


def write_page(
    path: str | os.PathLike[str],
    title: str,
    payload: Payload,
    pages: Sequence[Page],
    *,
    private: bool = False,
) -> None:
    payload.add_value("title", title)
    folders = {page.module.partition("/")[0]: page.static for page in pages} | {_PREFIX: STATIC}
    parts = {
        "title": html.escape(title),
        "css": _style(folders),
        "imports": json.dumps({"imports": dict(_modules(folders))}),
        "start": _start(pages),
        "data": _compressed(payload.packed()),
    }
    template = (STATIC / "report.html").read_text(encoding="utf-8")
    with output_file(path, private=private) as sink:
        at = 0
        for place in _PLACE.finditer(template):
            sink.write(template[at : place.start()].encode())
            sink.write(parts[place[1]].encode("utf-8", "replace"))
            at = place.end()
        sink.write(template[at:].encode())


def _title(trace: Trace) -> str:
    return f"{trace.info.host} {trace.info.pid}".strip() if trace.info.host else "Stepscope report"


def _compressed(block: bytes) -> str:
    """Return the block as gzip in base64, which no HTML parser takes for markup."""
    data = gzipped(block)
    pieces = range(0, len(data), _BASE64_AT_ONCE)
    return "".join(base64.b64encode(data[i : i + _BASE64_AT_ONCE]).decode() for i in pieces)


def _start(pages: Sequence[Page]) -> str:
    names = [f"page{i}" for i in range(len(pages))]
    imports = [
        f"import {{ page as {name} }} from {json.dumps(page.module)};"
        for name, page in zip(names, pages, strict=True)
    ]
    main = 'import { start } from "stepscope/main.js";'
    return "\n".join([main, *imports, f"await start([{', '.join(names)}]);"])


def _modules(folders: Folders) -> Iterator[tuple[str, str]]:
    """Yield the name of each module and its text as a data URL."""
    for prefix, folder in folders.items():
        for path, file in _files(folder, ".js"):
            text = base64.b64encode(file.read_bytes()).decode()
            yield f"{prefix}/{path}", f"data:text/javascript;base64,{text}"


def _style(folders: Folders) -> str:
    """Return the style sheets: that of the frame first, so that pages can override it."""
    sheets = [entry for folder in folders.values() for entry in _files(folder, ".css")]
    sheets.sort(key=lambda entry: entry[0] != "report.css")
    return "\n".join(sheet.read_text(encoding="utf-8") for _, sheet in sheets)


def _files(
    folder: Traversable | Path, suffix: str, path: str = ""
) -> Iterator[tuple[str, Traversable | Path]]:
    for entry in sorted(folder.iterdir(), key=lambda entry: entry.name):
        if entry.is_dir():
            yield from _files(entry, suffix, f"{path}{entry.name}/")
        elif entry.name.endswith(suffix):
            yield f"{path}{entry.name}", entry
