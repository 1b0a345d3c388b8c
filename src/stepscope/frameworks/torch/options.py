"""Recording options of PyTorch; `stepscope run` gets its flags from here alone."""

from __future__ import annotations

import os
from enum import Enum

from stepscope.record.options import STACKS, Option, StackMode

_ENVIRONMENT = "STEPSCOPE_TORCH_COLLECTOR"


class TorchCollector(Enum):
    """How PyTorch's operators are collected."""

    AUTO = "auto"  # the bridge, or torch's own collector if there is no bridge
    BRIDGE = "bridge"
    KINETO = "kineto"


TORCH_COLLECTOR = Option(
    "torch_collector",
    TorchCollector.AUTO,
    "--torch-collector",
    "how PyTorch is recorded: through the bridge, through torch's own collector, which has more "
    "overhead (kineto), or through the first of these that works here (default: auto)",
)

NEEDLESS = Option(
    "needless",
    False,
    "--needless",
    "also record which data PyTorch's operators read and make, to tell what is computed again, "
    "made and hardly read, or copied to be extended; implies --stacks operators",
    implies=((STACKS.name, StackMode.OPERATORS),),
)
COLLECTIVE_WAITS = Option("collective_waits", False, run_default=True)
PHASES = Option("phases", False)


def chosen_collector(collector: TorchCollector) -> TorchCollector:
    """Return the collector chosen in the program, else by the environment."""
    if collector is TorchCollector.AUTO and (wish := os.environ.get(_ENVIRONMENT)):
        try:
            collector = TorchCollector(wish.lower())
        except ValueError:
            choices = ", ".join(choice.value for choice in TorchCollector)
            raise ValueError(f"{_ENVIRONMENT}={wish!r} is not one of {choices}") from None
    return collector
