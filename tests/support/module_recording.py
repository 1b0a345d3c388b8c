"""What the tests of module calls share."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Any

from torch import nn

from recording import trace_of
from stepscope.frameworks.torch.modules import TorchModules
from stepscope.record.session import Session
from stepscope.record.source import make_sources
from stepscope.trace.model import SliceKind

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from stepscope.trace.model import Trace

PLAIN_CALL = vars(nn.Module)["__call__"]


@contextlib.contextmanager
def modules_recorded() -> Iterator[Session]:
    """Record module calls and operators; torch must be as it was afterwards."""
    session = Session([*make_sources(), TorchModules()])
    session.start()
    try:
        yield session
    finally:
        session.stop()
        assert vars(nn.Module)["__call__"] is PLAIN_CALL


def recorded(run: Callable[[], object]) -> Trace:
    with modules_recorded() as session:
        run()
    return trace_of(session)


def module_rows(trace: Trace) -> list[int]:
    return [row for row, kind in enumerate(trace.slices.kind) if kind == SliceKind.MODULE]


def module_names(trace: Trace) -> list[str]:
    return [trace.name_of(row) for row in module_rows(trace)]


def module_args(trace: Trace) -> dict[str, dict[str, Any]]:
    """Return what is told of modules, by their names; not where a model lies in memory."""
    values = {
        trace.name_of(row): trace.slices.args.of_row(row, trace.strings)
        for row in module_rows(trace)
    }
    for args in values.values():
        args.pop("Model id", None)
    return values
