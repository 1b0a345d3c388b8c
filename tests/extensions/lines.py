"""A format: a text with the start, the duration and the name of each slice in a line."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from stepscope.formats import FORMATS, Format

if TYPE_CHECKING:
    import os

    from stepscope import Trace
    from stepscope.formats.base.registry import Progress

HEAD = "slices in ns\n"


def write_lines(
    trace: Trace, path: str | os.PathLike[str], _progress: Progress | None = None
) -> None:
    slices = trace.slices
    rows = zip(slices.start_ns, slices.duration_ns, trace.names(), strict=True)
    text = "".join(f"{start} {duration} {name}\n" for start, duration, name in rows)
    Path(path).write_text(HEAD + text, encoding="utf-8")


def read_lines(path: Path, _progress: Progress | None = None) -> Trace:
    import numpy as np

    from stepscope.trace.build import build
    from stepscope.trace.model import TraceInfo, Track
    from stepscope.trace.schema import Captured, Slices
    from stepscope.trace.strings import Strings

    lines = path.read_text(encoding="utf-8").removeprefix(HEAD).splitlines()
    starts, durations, names = zip(*(line.split(" ", 2) for line in lines), strict=True)
    texts = dict.fromkeys(["", *names])
    ids = {text: number for number, text in enumerate(texts)}
    slices = Slices.of(
        category=np.zeros(len(lines), np.uint32),
        name=np.array([ids[name] for name in names], np.uint32),
        start_ns=np.array(starts, np.int64),
        duration_ns=np.array(durations, np.int64),
        track=np.zeros(len(lines), np.uint32),
    )
    return build(Captured(slices, (Track("1", "1"),), Strings.of(texts)), TraceInfo("lines"))


FORMATS.register(
    Format(
        "lines of slices",
        (".lines",),
        matches=lambda _path, head: head.startswith(HEAD.encode()),
        reader=lambda: read_lines,
        writer=lambda: write_lines,
    )
)
