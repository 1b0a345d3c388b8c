"""PyTorch: what is recorded of it, the bridge, torch.profiler's dialect, formulas for flops."""

from __future__ import annotations

from typing import TYPE_CHECKING

from stepscope.analysis.flops.formulas import FORMULAS
from stepscope.analysis.host.landmarks import LANDMARKS
from stepscope.analysis.remedies import ADVICE
from stepscope.record.group_makers import GROUP_MAKERS, GroupMaker
from stepscope.record.source import SOURCES

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from stepscope.analysis.flops.inputs import Formula
    from stepscope.analysis.host.landmarks import Landmarks
    from stepscope.analysis.remedies import Advice
    from stepscope.record.source import Source


@FORMULAS.register
def _formulas() -> Mapping[str, Formula]:
    from stepscope.frameworks.torch.flops import FORMULAS as FOR_TORCH

    return FOR_TORCH


@LANDMARKS.register
def _landmarks() -> Landmarks:
    from stepscope.frameworks.torch.landmarks import LANDMARKS as OF_TORCH

    return OF_TORCH


@ADVICE.register
def _advice() -> Advice:
    from stepscope.frameworks.torch.advice import ADVICE as FOR_TORCH

    return FOR_TORCH


GROUP_MAKERS.register(
    GroupMaker(
        "init_process_group",
        ("torch.distributed", "torch.distributed.distributed_c10d"),
        ("backend", "init_method", "timeout", "world_size", "rank"),
    )
)


@SOURCES.register
def _sources() -> Sequence[type[Source]]:
    from stepscope.frameworks.torch.collective_waits import TorchCollectiveWaits
    from stepscope.frameworks.torch.collectives import TorchCollectives
    from stepscope.frameworks.torch.compile import TorchCompile
    from stepscope.frameworks.torch.generated import TorchGeneratedCode
    from stepscope.frameworks.torch.live_objects import TorchObjects
    from stepscope.frameworks.torch.loader import TorchLoaderRanges, TorchLoaderWorkers
    from stepscope.frameworks.torch.modules import TorchModelCalls, TorchModules
    from stepscope.frameworks.torch.phases import TorchPhases
    from stepscope.frameworks.torch.source import WhenImported

    return (
        *(WhenImported, TorchCompile, TorchGeneratedCode, TorchModules, TorchModelCalls),
        *(TorchPhases, TorchLoaderRanges, TorchLoaderWorkers, TorchObjects),
        *(TorchCollectives, TorchCollectiveWaits),
    )
