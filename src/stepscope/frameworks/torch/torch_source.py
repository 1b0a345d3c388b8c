"""Records PyTorch by the chosen collector, even if torch is imported later."""

from __future__ import annotations

import sys
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from stepscope.frameworks.torch.bridge.build import BridgeUnavailableError
from stepscope.frameworks.torch.options import (
    NEEDLESS,
    TORCH_COLLECTOR,
    TorchCollector,
    chosen_collector,
)
from stepscope.notices import notify
from stepscope.record.options import DEVICE, HOST, MEMORY
from stepscope.record.post_import import PostImport
from stepscope.record.source import Burden, Source, Stage

if TYPE_CHECKING:
    from collections.abc import Mapping

    from stepscope.frameworks.torch.collector import Kineto
    from stepscope.frameworks.torch.operators import TorchOps
    from stepscope.frameworks.torch.tensor_notes import TensorNotes
    from stepscope.record.limits import MemoryLimit
    from stepscope.record.options import RecordOptions
    from stepscope.record.stream.left_behind import LeftBehind
    from stepscope.trace.schema import Captured


def make_bridges_ready(options: RecordOptions) -> BridgeUnavailableError | None:
    """Build missing bridges for the installed torch; return why there will be none.

    If only the bridge was asked for, the reason is raised instead. torch is not imported.
    """
    collector = chosen_collector(options[TORCH_COLLECTOR])
    if collector is TorchCollector.KINETO:
        return None
    from stepscope.frameworks.torch.bridge.load import make_ready
    from stepscope.frameworks.torch.bridge.prebuilt import OPERATORS
    from stepscope.frameworks.torch.cuda_memory import CUDA_MEMORY

    obstacle = None
    try:
        make_ready(OPERATORS)
    except BridgeUnavailableError as error:
        if collector is TorchCollector.BRIDGE:
            raise  # the program's import of torch would be too late
        obstacle = error
    except OSError as error:
        obstacle = BridgeUnavailableError(str(error))
    if options[MEMORY] and options[DEVICE]:
        # The user is warned when memory is recorded.
        with suppress(BridgeUnavailableError, OSError):
            make_ready(CUDA_MEMORY)
    return obstacle


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
    except Exception as error:  # any failure of a bridge has a substitute
        if collector is TorchCollector.BRIDGE:
            raise
        is_told = isinstance(error, BridgeUnavailableError)
        why = str(error) if is_told else f"{type(error).__name__}: {error}"
        notify(f"recording through torch's own collector: {why}. {DIFFERENCES}")
        return Kineto(torch, options, why)


class TorchSource(Source):
    """Records PyTorch, at once or when the program imports it."""

    name = "torch"
    burden = Burden.OPERATORS
    stage = Stage.OPERATORS
    when = HOST
    options = (TORCH_COLLECTOR, NEEDLESS)

    def __init__(self, options: RecordOptions) -> None:
        self._collector = chosen_collector(options[TORCH_COLLECTOR])
        self._options = options
        self._source: TorchOps | Kineto | None = None
        self._obstacle: BridgeUnavailableError | None = None  # found before torch was imported
        self._made_ready = False
        self._started = False
        self._hook = PostImport("torch", self._on_import)

    @classmethod
    def made_for(cls, options: RecordOptions, _limit: MemoryLimit | None) -> Source:
        return cls(options)

    def prepare(self) -> None:
        torch = sys.modules.get("torch")
        if self._source is None and torch is not None and hasattr(torch, "_C"):
            self._source = _source_for(torch, self._collector, self._options)
        if self._source is not None:
            self._source.prepare()
        else:
            self._make_ready()
            self._hook.install()

    def start(self) -> None:
        self._started = True
        if self._source is None:
            self.prepare()
        if self._source is not None:
            self._source.start()

    def stop(self) -> None:
        self._started = False
        self._hook.remove()
        if self._source is not None:
            self._source.stop()

    def collect(self) -> Captured | None:
        return None if self._source is None else self._source.collect()

    def so_far(self) -> Captured | None:
        return None if self._source is None else self._source.so_far()

    @classmethod
    def recover(cls, remains: LeftBehind) -> Captured | None:
        """Return what torch's own collector left; the bridge records into the stream."""
        from stepscope.frameworks.torch.collector import Kineto

        return Kineto.recover(remains)

    @property
    def tensor_notes(self) -> TensorNotes | None:
        """Return which tensors the last recording's operators had; None if unknown."""
        return None if self._source is None else self._source.tensor_notes

    def describe(self) -> str:
        return "torch was not imported" if self._source is None else self._source.describe()

    def parallelism(self) -> Mapping[str, float]:
        torch: Any = sys.modules.get("torch")
        if self._source is None or not hasattr(torch, "get_num_interop_threads"):
            return {}
        return {
            "torch threads": float(torch.get_num_threads()),
            "torch interop threads": float(torch.get_num_interop_threads()),
        }

    def overhead_ns(self) -> float:
        return 0.0 if self._source is None else self._source.overhead_ns()

    def _make_ready(self) -> None:
        if not self._made_ready:
            self._made_ready = True
            self._obstacle = make_bridges_ready(self._options)

    def _on_import(self, torch: Any) -> None:
        self._source = _source_for(torch, self._collector, self._options, self._obstacle)
        self._source.prepare()
        if self._started:
            self._source.start()
