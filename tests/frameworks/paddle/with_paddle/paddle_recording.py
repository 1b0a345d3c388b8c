"""What the tests of the Paddle source share."""

from __future__ import annotations

import contextlib
import importlib
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from recording import chain_of
from stepscope.frameworks.paddle.paddle_source import PaddleSource
from stepscope.record.options import RecordOptions
from stepscope.record.recorder import Recorder

if TYPE_CHECKING:
    from collections.abc import Iterator

    from stepscope.trace.model import Trace


def paddle_or_skip() -> Any:
    """Return Paddle, or skip the module; a folder of that name is no Paddle."""
    pytest.importorskip("paddle.base")
    return importlib.import_module("paddle")


@contextlib.contextmanager
def paddle_recorded(**options: Any) -> Iterator[Recorder]:
    """Record Paddle, and nothing else but ranges."""
    recorder = Recorder([PaddleSource(RecordOptions(**options))])
    recorder.start()
    try:
        yield recorder
    finally:
        recorder.stop()


def trace_of(recorder: Recorder) -> Trace:
    assert recorder.trace is not None
    return recorder.trace


def rows_of(trace: Trace, name: str) -> list[int]:
    """Return the rows of all slices of a name."""
    return np.flatnonzero(np.array(list(trace.names())) == name).tolist()


def category_of(trace: Trace, row: int) -> str:
    return trace.strings[int(trace.slices.category[row])]


def args_of(trace: Trace, row: int) -> dict[str, Any]:
    return trace.slices.args.of_row(row, trace.strings)


def path_of(trace: Trace, row: int) -> list[str]:
    """Return the names from the outermost slice to this one."""
    return list(reversed(chain_of(trace, row)))
