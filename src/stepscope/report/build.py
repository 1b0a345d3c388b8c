"""From a Trace to a page: the sections fill a payload, the modules and the payload are inlined."""

from __future__ import annotations

import base64
import html
import json
import re
from importlib.resources import files
from typing import TYPE_CHECKING

from stepscope.analysis.memory.usage import with_memory
from stepscope.analysis.shared import shared_analyses
from stepscope.formats.files import gzipped, output_file
from stepscope.report.detail import MOST_SLICES, detail_of
from stepscope.report.payload import Payload
from stepscope.report.sections import SECTIONS, SECTIONS_BY_SLICE

if TYPE_CHECKING:
    import os
    from collections.abc import Iterator
    from importlib.resources.abc import Traversable

    from stepscope.formats.registry import Progress
    from stepscope.trace.model import Trace

_PLACE = re.compile(r"\{\{(\w+)\}\}")
_PREFIX = "stepscope/"  # of the modules' names in the page's import map
_BASE64_AT_ONCE = 3 << 20  # a multiple of 3: the pieces join


def export_html(
    trace: Trace,
    path: str | os.PathLike[str],
    progress: Progress | None = None,
    *,
    title: str = "",
    source: bool = True,
    most_slices: int = MOST_SLICES,
) -> int:
    """Write the report of ``trace`` to ``path``: one file that needs no network.

    With ``source`` the page holds the text of the user's own files in which time was spent. Its
    timeline holds ``most_slices`` at most, the longest of each moment; returns how many were left
    out. Sums are those of all slices.
    """
    tell = progress or (lambda _done, _all: None)
    title = title or _title(trace)
    trace = with_memory(trace)  # once, for all sections: it is another Trace then
    detail = detail_of(trace, most_slices)
    payload = Payload(detail, with_code=source)
    payload.add_value("title", title)
    payload.add_value("left_out", detail.left_out)
    work = [(section, detail.trace) for section in SECTIONS_BY_SLICE]
    work += [(section, trace) for section in SECTIONS]
    steps = len(work) + 1
    with shared_analyses():
        for done, (section, its_trace) in enumerate(work):
            tell(done, steps)
            section(its_trace, payload)
    tell(len(work), steps)
    parts = {
        "title": html.escape(title),
        "css": _style(),
        "imports": json.dumps({"imports": dict(_modules())}),
        "data": _compressed(payload.packed()),
    }
    page = _static("report.html")
    with output_file(path) as sink:
        at = 0
        for place in _PLACE.finditer(page):
            sink.write(page[at : place.start()].encode())
            sink.write(parts[place[1]].encode("utf-8", "replace"))
            at = place.end()
        sink.write(page[at:].encode())
    tell(steps, steps)
    return detail.left_out


def _title(trace: Trace) -> str:
    return f"{trace.info.host} {trace.info.pid}".strip() if trace.info.host else "Stepscope report"


def _compressed(block: bytes) -> str:
    """Return the block as gzip in base64, which no HTML parser takes for markup."""
    data = gzipped(block)
    pieces = range(0, len(data), _BASE64_AT_ONCE)
    return "".join(base64.b64encode(data[i : i + _BASE64_AT_ONCE]).decode() for i in pieces)


def _modules() -> Iterator[tuple[str, str]]:
    """Yield the name of each module in the page, and its text as a URL."""
    for path, file in _files(_folder(), ".js"):
        text = base64.b64encode(file.read_bytes()).decode()
        yield f"{_PREFIX}{path}", f"data:text/javascript;base64,{text}"


def _style() -> str:
    """Return the style sheets: the frame's first, so that a page's own may differ from it."""
    sheets = dict(_files(_folder(), ".css"))
    ordered = [sheets.pop("report.css"), *sheets.values()]
    return "\n".join(sheet.read_text(encoding="utf-8") for sheet in ordered)


def _files(folder: Traversable, suffix: str, path: str = "") -> Iterator[tuple[str, Traversable]]:
    for entry in sorted(folder.iterdir(), key=lambda entry: entry.name):
        if entry.is_dir():
            yield from _files(entry, suffix, f"{path}{entry.name}/")
        elif entry.name.endswith(suffix):
            yield f"{path}{entry.name}", entry


def _folder() -> Traversable:
    return files(__package__) / "static"


def _static(name: str) -> str:
    return (_folder() / name).read_text(encoding="utf-8")
