"""The files of a profiler: their writers are imported on the thread that writes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from stepscope.frameworks.torch.dialect.as_torch import (
    with_overloads_in_names,
    with_torch_keywords,
)

if TYPE_CHECKING:
    import os

    from stepscope.trace.model import Trace


def export_chrome(trace: Trace, path: str | os.PathLike[str]) -> None:
    """Write a trace as Chrome JSON."""
    from stepscope.formats.chrome import write

    write.export_chrome(trace, path)


def export_as_torch(trace: Trace, path: str | os.PathLike[str], *, overloads: bool) -> None:
    """Write a trace as torch.profiler does: with its keywords, and names that it gives."""
    trace = with_torch_keywords(trace)
    export_chrome(with_overloads_in_names(trace) if overloads else trace, path)


def export_html(trace: Trace, path: str | os.PathLike[str]) -> None:
    """Write the report of a trace."""
    from stepscope.report import build

    build.export_html(trace, path)
