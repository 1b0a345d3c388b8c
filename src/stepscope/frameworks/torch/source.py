"""Chooses how PyTorch is recorded, also if torch is imported later."""

from __future__ import annotations

import os
import sys
from contextlib import suppress
from enum import Enum
from typing import TYPE_CHECKING, Any

from stepscope.frameworks.torch.bridge.build import BridgeUnavailableError
from stepscope.notices import notify
from stepscope.record.options import DEVICE, HOST, MEMORY, Option
from stepscope.record.post_import import PostImport
from stepscope.record.source import Burden, Source, Stage

if TYPE_CHECKING:
    from collections.abc import Mapping

    from stepscope.frameworks.torch.collector import Kineto
    from stepscope.frameworks.torch.operators import TorchOps
    from stepscope.frameworks.torch.tensor_notes import TensorNotes
    from stepscope.record.limits import MemoryLimit
    from stepscope.record.options import RecordOptions
    from stepscope.trace.schema import Captured

_ENVIRONMENT = "STEPSCOPE_TORCH_COLLECTOR"


class TorchCollector(Enum):
    """How PyTorch's operators are collected."""

    AUTO = "auto"  # the bridge, or torch's own collector where no bridge can be had
    BRIDGE = "bridge"
    KINETO = "kineto"


TORCH_COLLECTOR = Option(
    "torch_collector",
    TorchCollector.AUTO,
    "--torch-collector",
    "how PyTorch is recorded: through the bridge, through torch's own collector, which has more "
    "overhead (kineto), or through the first of these that works here (default: auto)",
)


def _chosen(collector: TorchCollector) -> TorchCollector:
    """Return the collector that was asked for, in the program or by the environment."""
    if collector is TorchCollector.AUTO and (wish := os.environ.get(_ENVIRONMENT)):
        try:
            collector = TorchCollector(wish.lower())
        except ValueError:
            choices = ", ".join(choice.value for choice in TorchCollector)
            raise ValueError(f"{_ENVIRONMENT}={wish!r} is not one of {choices}") from None
    return collector


def _source_for(
    torch: Any,
    collector: TorchCollector,
    options: RecordOptions,
    obstacle: BridgeUnavailableError | None = None,
) -> TorchOps | Kineto:
    from stepscope.frameworks.torch.collector import DIFFERENCES, Kineto
    from stepscope.frameworks.torch.operators import TorchOps

    if collector is TorchCollector.KINETO:
        return Kineto(torch, options, "it was requested")
    try:
        if obstacle is not None:
            raise obstacle
        return TorchOps(torch, options)
    except Exception as error:  # whatever is wrong with a bridge, there is a way without
        if collector is TorchCollector.BRIDGE:
            raise
        is_told = isinstance(error, BridgeUnavailableError)
        why = str(error) if is_told else f"{type(error).__name__}: {error}"
        notify(f"recording through torch's own collector: {why}. {DIFFERENCES}")
        return Kineto(torch, options, why)


class WhenImported(Source):
    """PyTorch's source: starts at once, or when the program imports torch."""

    name = "torch"
    burden = Burden.OPERATORS
    stage = Stage.OPERATORS
    when = HOST
    options = (TORCH_COLLECTOR,)

    def __init__(self, options: RecordOptions) -> None:
        """Remember the choice; nothing is imported or built yet."""
        self._collector = _chosen(options[TORCH_COLLECTOR])
        self._options = options
        self._source: TorchOps | Kineto | None = None
        self._obstacle: BridgeUnavailableError | None = None  # found before torch was imported
        self._made_ready = False
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
            self._make_ready()
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

    def so_far(self) -> Captured | None:
        """Return what the chosen source has kept until now."""
        return None if self._source is None else self._source.so_far()

    @property
    def tensor_notes(self) -> TensorNotes | None:
        """Return which tensors the operators of the last recording had; None where unknown."""
        return None if self._source is None else self._source.tensor_notes

    def describe(self) -> str:
        """Say what is used."""
        return "torch was not imported" if self._source is None else self._source.describe()

    def parallelism(self) -> Mapping[str, float]:
        """Return how many threads torch runs operators with."""
        torch: Any = sys.modules.get("torch")
        if self._source is None or not hasattr(torch, "get_num_interop_threads"):
            return {}
        return {
            "torch threads": float(torch.get_num_threads()),
            "torch interop threads": float(torch.get_num_interop_threads()),
        }

    def overhead_ns(self) -> float:
        """Return the chosen source's cost of one event."""
        return 0.0 if self._source is None else self._source.overhead_ns()

    def _make_ready(self) -> None:
        """Prepare the bridge before the program begins, outside the program's time."""
        if self._collector is TorchCollector.KINETO or self._made_ready:
            return
        self._made_ready = True
        from stepscope.frameworks.torch.bridge.build import OPERATORS
        from stepscope.frameworks.torch.bridge.load import make_ready
        from stepscope.frameworks.torch.cuda_memory import CUDA_MEMORY

        try:
            make_ready(OPERATORS)
        except BridgeUnavailableError as error:
            if self._collector is TorchCollector.BRIDGE:
                raise  # nothing else was asked for; in the program's import it would be too late
            self._obstacle = error
        except OSError as error:
            self._obstacle = BridgeUnavailableError(str(error))
        if self._options[MEMORY] and self._options[DEVICE]:
            # It is told of where memory is to be recorded.
            with suppress(BridgeUnavailableError, OSError):
                make_ready(CUDA_MEMORY)

    def _on_import(self, torch: Any) -> None:
        self._source = _source_for(torch, self._collector, self._options, self._obstacle)
        self._source.prepare()
        if self._started:
            self._source.start()
