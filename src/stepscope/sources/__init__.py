"""What can be recorded: one file a source, one line here."""

from __future__ import annotations

from typing import TYPE_CHECKING

from stepscope.record.options import RecordOptions, StackMode
from stepscope.sources.annotations import forward_annotations
from stepscope.sources.python_calls import PythonCalls
from stepscope.sources.torch_modules import TorchModules
from stepscope.sources.torch_source import TorchCollector, torch_source

if TYPE_CHECKING:
    from stepscope.sources.base import Source

__all__ = ["TorchCollector", "default_sources"]


def default_sources(
    torch_collector: TorchCollector = TorchCollector.AUTO,
    options: RecordOptions | None = None,
) -> list[Source]:
    """Return a source for each framework; one that is not imported is waited for."""
    options = options or RecordOptions()
    sources: list[Source] = [torch_source(torch_collector, options)]
    if options.modules:
        sources.append(TorchModules())
    if options.annotations:
        sources.append(forward_annotations())
    if options.stacks is not StackMode.NONE:
        sources.append(PythonCalls(options.stacks))
    return sources
