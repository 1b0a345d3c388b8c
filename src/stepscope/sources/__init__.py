"""What can be recorded: one file a source, one line here."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from stepscope.record.options import RecordOptions, StackMode
from stepscope.sources.annotations import forward_annotations
from stepscope.sources.cuda import CudaActivity
from stepscope.sources.gc_pauses import GcPauses
from stepscope.sources.paddle_source import PaddleSource
from stepscope.sources.python_calls import PythonCalls
from stepscope.sources.torch_compile import TorchCompile
from stepscope.sources.torch_modules import TorchModules
from stepscope.sources.torch_phases import TorchPhases
from stepscope.sources.torch_source import TorchCollector, torch_source

if TYPE_CHECKING:
    from stepscope.record import MemoryLimit
    from stepscope.sources.base import Source

__all__ = ["TorchCollector", "default_sources"]


def default_sources(
    torch_collector: TorchCollector = TorchCollector.AUTO,
    options: RecordOptions | None = None,
    limit: MemoryLimit | None = None,
) -> list[Source]:
    """Return a source for each framework; one that is not imported is waited for.

    ``limit`` is what each child process may keep, where those are recorded.
    """
    options = options or RecordOptions()
    sources: list[Source] = []
    if options.device:
        sources.append(CudaActivity(limit))
    if options.host:
        sources += [torch_source(torch_collector, options), TorchCompile()]
        sources.append(PaddleSource(options))
    if options.modules:
        sources.append(TorchModules())
    if options.phases:
        sources.append(TorchPhases())
    if options.annotations:
        sources.append(forward_annotations())
    if options.gc_pauses:
        sources.append(GcPauses())
    if options.stacks is not StackMode.NONE:
        sources.append(PythonCalls(options.stacks))
    if options.workers:
        from stepscope.sources.loader_ranges import LoaderRanges
        from stepscope.sources.workers import ChildProcesses

        for_children = replace(options, device=False)
        make_sources = partial(default_sources, torch_collector, for_children, limit)
        sources += [LoaderRanges(), ChildProcesses(make_sources, limit)]
    return sources
