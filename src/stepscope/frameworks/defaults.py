"""What can be recorded: one file a source, one line here."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from stepscope.frameworks.cuda.source import CudaActivity
from stepscope.frameworks.paddle.source import PaddleSource
from stepscope.frameworks.python.annotations import forward_annotations
from stepscope.frameworks.python.calls import PythonCalls
from stepscope.frameworks.python.gc_pauses import GcPauses
from stepscope.frameworks.torch.compile import TorchCompile
from stepscope.frameworks.torch.modules import TorchModules
from stepscope.frameworks.torch.phases import TorchPhases
from stepscope.frameworks.torch.source import TorchCollector, torch_source
from stepscope.record.options import RecordOptions, StackMode

if TYPE_CHECKING:
    from stepscope.record import MemoryLimit
    from stepscope.record.source import Source

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
        from stepscope.frameworks.python.workers import ChildProcesses
        from stepscope.frameworks.torch.loader import LoaderRanges

        for_children = replace(options, device=False)
        make_sources = partial(default_sources, torch_collector, for_children, limit)
        sources += [LoaderRanges(), ChildProcesses(make_sources, limit)]
    return sources
