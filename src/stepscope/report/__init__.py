"""The report: a trace as one HTML file that opens from disk, offline, in any browser."""

from __future__ import annotations

import os

from stepscope.analysis.compare.model import NOTEBOOK as DIFF_NOTEBOOK
from stepscope.analysis.compare.model import Diff
from stepscope.analysis.host.modules import NOTEBOOK as MODULES_NOTEBOOK
from stepscope.analysis.host.modules import ModuleTable
from stepscope.analysis.memory.timeline import MemoryTimeline
from stepscope.formats.base.registry import FORMATS, Format
from stepscope.formats.memory_timeline import TIMELINE_FORMATS
from stepscope.lazy import loader
from stepscope.trace.model import NOTEBOOK, Trace


@NOTEBOOK.register
def _notebook(trace: Trace) -> str:
    from stepscope.report.notebook import overview_html

    return overview_html(trace)


@MODULES_NOTEBOOK.register
def _modules(table: ModuleTable) -> str:
    from stepscope.report.notebook import table_html
    from stepscope.text.modules import module_cells

    return table_html(*module_cells(table))


@DIFF_NOTEBOOK.register
def _diff(diff: Diff) -> str:
    from stepscope.report.compare import diff_html

    return diff_html(diff)


def _write_memory(timeline: MemoryTimeline, path: str | os.PathLike[str]) -> None:
    from stepscope.report.build import export_memory_html

    export_memory_html(timeline, path)


FORMATS.register(Format("report", (".html",), writer=loader("stepscope.report.build:export_html")))
TIMELINE_FORMATS.register(((".html",), _write_memory))
