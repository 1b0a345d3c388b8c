"""From a Trace to a page: the sections fill a payload, the modules and the payload are inlined."""

from __future__ import annotations

import base64
import html
import json
import re
from importlib.resources import files
from typing import TYPE_CHECKING

from stepscope.export._files import gzipped, output_file
from stepscope.report.payload import Payload
from stepscope.report.sections import SECTIONS

if TYPE_CHECKING:
    import os
    from collections.abc import Iterator
    from importlib.resources.abc import Traversable

    from stepscope.export import Progress
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
) -> None:
    """Write the report of ``trace`` to ``path``: one file that needs no network."""
    tell = progress or (lambda _done, _all: None)
    payload = Payload()
    steps = len(SECTIONS) + 1
    for done, section in enumerate(SECTIONS):
        tell(done, steps)
        section(trace, payload)
    tell(len(SECTIONS), steps)
    parts = {
        "title": html.escape(title or _title(trace)),
        "css": _static("report.css"),
        "imports": json.dumps({"imports": dict(_modules())}),
        "data": _compressed(payload.packed()),
    }
    page = _static("report.html")
    with output_file(path) as sink:
        at = 0
        for place in _PLACE.finditer(page):
            sink.write(page[at : place.start()].encode())
            sink.write(parts[place[1]].encode())
            at = place.end()
        sink.write(page[at:].encode())
    tell(steps, steps)


def _title(trace: Trace) -> str:
    return f"{trace.info.host} {trace.info.pid}".strip() if trace.info.host else "Stepscope report"


def _compressed(block: bytes) -> str:
    """Return the block as gzip in base64, which no HTML parser takes for markup."""
    data = gzipped(block)
    pieces = range(0, len(data), _BASE64_AT_ONCE)
    return "".join(base64.b64encode(data[i : i + _BASE64_AT_ONCE]).decode() for i in pieces)


def _modules() -> Iterator[tuple[str, str]]:
    """Yield the name of each module in the page, and its text as a URL."""
    for path, file in _scripts(_folder(), ""):
        text = base64.b64encode(file.read_bytes()).decode()
        yield f"{_PREFIX}{path}", f"data:text/javascript;base64,{text}"


def _scripts(folder: Traversable, path: str) -> Iterator[tuple[str, Traversable]]:
    for entry in sorted(folder.iterdir(), key=lambda entry: entry.name):
        if entry.is_dir():
            yield from _scripts(entry, f"{path}{entry.name}/")
        elif entry.name.endswith(".js"):
            yield f"{path}{entry.name}", entry


def _folder() -> Traversable:
    return files("stepscope.report") / "static"


def _static(name: str) -> str:
    return (_folder() / name).read_text(encoding="utf-8")
