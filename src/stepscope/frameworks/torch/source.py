"""Chooses how PyTorch is recorded, and waits for a torch that is not imported yet."""

from __future__ import annotations

import os
import sys
from enum import Enum
from typing import TYPE_CHECKING, Any

from stepscope._native import record_function
from stepscope.frameworks.torch.bridge.build import BridgeUnavailableError
from stepscope.notices import notify
from stepscope.record.options import HOST, Option
from stepscope.record.post_import import PostImport
from stepscope.record.source import Source, Stage

if TYPE_CHECKING:
    from stepscope.record.limits import MemoryLimit
    from stepscope.record.options import RecordOptions
    from stepscope.trace.build import Captured

_ENVIRONMENT = "STEPSCOPE_TORCH_COLLECTOR"


class TorchCollector(Enum):
    """How PyTorch's operators are collected."""

    AUTO = "auto"  # the bridge, or torch's own collector where the bridge cannot be built
    BRIDGE = "bridge"
    KINETO = "kineto"


TORCH_COLLECTOR = Option(
    "torch_collector",
    TorchCollector.AUTO,
    "--torch-collector",
    "how PyTorch is recorded: by the bridge, which is compiled once, by torch's own collector "
    "(kineto), or by the first of them that works here (default: auto)",
)


def _chosen(collector: TorchCollector) -> TorchCollector:
    """Return the collector that was asked for, in the program or by the environment."""
    if collector is TorchCollector.AUTO and (wish := os.environ.get(_ENVIRONMENT)):
        try:
            collector = TorchCollector(wish.lower())
        except ValueError:
            choices = ", ".join(choice.value for choice in TorchCollector)
            raise ValueError(f"{_ENVIRONMENT}={wish!r} is none of {choices}") from None
    return collector


def _source_for(torch: Any, collector: TorchCollector, options: RecordOptions) -> Source:
    from stepscope.frameworks.torch.collector import Kineto
    from stepscope.frameworks.torch.operators import TorchOps

    if collector is TorchCollector.KINETO:
        return Kineto(torch, "it was asked for")
    try:
        return TorchOps(torch, options)
    except BridgeUnavailableError as error:
        if collector is TorchCollector.BRIDGE:
            raise
        notify(f"recording through torch's own collector, which costs more: {error}")
        return Kineto(torch, str(error))


class WhenImported(Source):
    """PyTorch's source as soon as there is a torch: at once, or when the program imports it."""

    name = "torch"
    stage = Stage.OPERATORS
    when = HOST
    options = (TORCH_COLLECTOR,)

    def __init__(self, options: RecordOptions) -> None:
        """Remember the choice; nothing is imported or built yet."""
        self._collector = _chosen(options[TORCH_COLLECTOR])
        self._options = options
        self._source: Source | None = None
        self._started = False
        self._hook = PostImport("torch", self._on_import)

    @classmethod
    def made_for(cls, options: RecordOptions, _limit: MemoryLimit | None) -> Source:
        """Make one for PyTorch, whether it is imported yet or not."""
        return cls(options)

    def prepare(self) -> None:
        """Find torch, or wait for it."""
        torch = sys.modules.get("torch")
        if self._source is None and torch is not None and hasattr(torch, "_C"):
            self._source = _source_for(torch, self._collector, self._options)
        if self._source is not None:
            self._source.prepare()
        else:
            self._hook.install()

    def start(self) -> None:
        """Record operators from now on, or from torch's import on."""
        self._started = True
        if self._source is None:
            self.prepare()
        if self._source is not None:
            self._source.start()

    def stop(self) -> None:
        """End recording, and waiting."""
        self._started = False
        self._hook.remove()
        if self._source is not None:
            self._source.stop()

    def collect(self) -> Captured | None:
        """Return what the chosen source kept."""
        return None if self._source is None else self._source.collect()

    def describe(self) -> str:
        """Say what is used."""
        return "torch was not imported" if self._source is None else self._source.describe()

    def overhead_ns(self) -> float:
        """Return the chosen source's cost of one event."""
        return 0.0 if self._source is None else self._source.overhead_ns()

    def _on_import(self, torch: Any) -> None:
        with record_function("stepscope: prepare to record torch"):
            self._source = _source_for(torch, self._collector, self._options)
            self._source.prepare()
        if self._started:
            self._source.start()
