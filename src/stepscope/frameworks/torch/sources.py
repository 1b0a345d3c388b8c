"""The sources of PyTorch."""

from __future__ import annotations

from typing import TYPE_CHECKING

from stepscope.errors import StepscopeError
from stepscope.frameworks.torch.options import (
    COLLECTIVE_WAITS,
    NEEDLESS,
    PHASES,
    TORCH_COLLECTOR,
    TorchCollector,
    chosen_collector,
)
from stepscope.record.options import MEMORY
from stepscope.record.source import with_options

if TYPE_CHECKING:
    from collections.abc import Sequence

    from stepscope.record.options import RecordOptions
    from stepscope.record.source import Source


def _check_bridge(options: RecordOptions) -> None:
    """Build missing bridges before the program starts, outside of its time."""
    try:
        collector = chosen_collector(options[TORCH_COLLECTOR])
    except ValueError as error:
        raise StepscopeError(str(error)) from None
    if collector is TorchCollector.KINETO:
        return
    from stepscope.frameworks.torch.bridge.prebuilt import OPERATORS, is_at_hand

    if options[MEMORY] or not is_at_hand(OPERATORS):
        from stepscope.frameworks.torch.torch_source import make_bridges_ready

        make_bridges_ready(options)


@with_options(TORCH_COLLECTOR, NEEDLESS, PHASES, COLLECTIVE_WAITS, check=_check_bridge)
def torch_sources() -> Sequence[type[Source]]:
    from stepscope.frameworks.torch.collectives import TorchCollectives, TorchCollectiveWaits
    from stepscope.frameworks.torch.compile import TorchCompile
    from stepscope.frameworks.torch.generated import TorchGeneratedCode
    from stepscope.frameworks.torch.live_objects import TorchObjects
    from stepscope.frameworks.torch.loader import TorchLoaderRanges, TorchLoaderWorkers
    from stepscope.frameworks.torch.modules import TorchModelCalls, TorchModules
    from stepscope.frameworks.torch.phases import TorchPhases
    from stepscope.frameworks.torch.torch_source import TorchSource

    return (
        *(TorchSource, TorchCompile, TorchGeneratedCode, TorchModules, TorchModelCalls),
        *(TorchPhases, TorchLoaderRanges, TorchLoaderWorkers, TorchObjects),
        *(TorchCollectives, TorchCollectiveWaits),
    )
