"""Records PyTorch operators through torch's own collector, which is slower but needs no bridge."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

from stepscope.errors import StepscopeError
from stepscope.frameworks.torch.kineto_results import plain_results, restored_results
from stepscope.frameworks.torch.owners import TorchOwners
from stepscope.record.journal import HANDED_OVER, Journal, entries
from stepscope.record.options import INSIDE, MEMORY, SHAPES
from stepscope.record.source import Source

if TYPE_CHECKING:
    from stepscope.frameworks.torch.kineto_results import Results
    from stepscope.record.options import RecordOptions
    from stepscope.record.stream.left_behind import LeftBehind
    from stepscope.trace.schema import Captured

# For the user: all other results are the same as with the bridge.
DIFFERENCES = (
    "It has several times the overhead, allows one profiler at a time, sees only the starting "
    "thread and autograd's threads, and has stacks only together with Python calls"
)

_FORKED = (
    "a forked child's operators are not recorded: torch's own collector does not follow a fork, "
    "as the bridge does"
)

# The active recording by process: two threads that start at the same time would both find torch's
# collector free, and crash it.
_collecting: dict[int, Kineto] = {}


class Kineto(Source):
    """Drives torch's own collector through its low-level interface."""

    name = "torch"
    tensor_notes = None  # the collector has no notes of single tensors

    def __init__(self, torch: Any, options: RecordOptions, why: str) -> None:
        self._torch = torch
        self._wishes = (options[SHAPES], options[MEMORY])
        self._is_inside = options[INSIDE]
        self._owners = TorchOwners() if options[MEMORY] else None
        self._why = why
        self._results: Any = None
        self._prepared = False

    def prepare(self) -> None:
        """Warm the collector up; this takes it away from any other user."""
        if os.getpid() in _collecting:
            raise _collector_taken("another recording")
        if _collecting:  # the parent's recording is neither on nor off here
            raise StepscopeError(_FORKED)
        if self._torch.autograd._profiler_enabled():
            raise _collector_taken("torch.profiler")
        self._torch.autograd._prepare_profiler(*self._options())
        self._prepared = True

    def start(self) -> None:
        """Collect on the calling thread and the threads that it starts."""
        if not self._prepared:
            self.prepare()
        if _collecting.setdefault(os.getpid(), self) is not self:
            raise _collector_taken("another recording")
        try:
            self._torch.autograd._enable_profiler(*self._options())
        except BaseException:
            del _collecting[os.getpid()]
            raise
        if self._owners is not None:
            self._owners.start()

    def stop(self) -> None:
        if self._owners is not None:
            self._owners.stop()
        try:
            self._results = self._torch.autograd._disable_profiler()
        finally:
            _collecting.pop(os.getpid(), None)
            self._prepared = False
        if self._is_inside and (results := self._hand_over_results()) is not None:
            results.note(Journal(self.name, is_on=True))

    def collect(self) -> Captured | None:
        results = self._hand_over_results()
        if results is None:
            return None
        from stepscope.frameworks.torch.collected import captured
        from stepscope.record.threads import thread_names

        return captured(results, thread_names())

    @classmethod
    def recover(cls, remains: LeftBehind) -> Captured | None:
        noted = entries(remains, cls.name)
        if not noted:
            return None
        from stepscope.frameworks.torch.collected import captured

        return captured(restored_results(noted), remains.thread_names)

    def _hand_over_results(self) -> Results | None:
        results, self._results = self._results, None
        if not results:
            return None
        shapes, memory = self._wishes
        return plain_results(results, shapes=shapes, memory=memory)

    def describe(self) -> str:
        is_waited_for = self._is_inside and _collecting.get(os.getpid()) is self
        return (
            f"operators of torch {self._torch.__version__} on the starting thread, "
            f"through torch's own collector: {self._why}{HANDED_OVER if is_waited_for else ''}"
        )

    def _options(self) -> tuple[Any, set[Any]]:
        autograd = self._torch.autograd
        profiler = self._torch._C._profiler
        state = autograd.ProfilerState.KINETO
        try:
            experimental = profiler._ExperimentalConfig(capture_overload_names=True)
        except TypeError:  # older versions of torch
            experimental = profiler._ExperimentalConfig()
        config = autograd.ProfilerConfig(state, *self._wishes, False, False, False, experimental)
        return config, {profiler.ProfilerActivity.CPU}


def _collector_taken(by: str) -> StepscopeError:
    return StepscopeError(
        f"{by} is active, and torch's collector serves one user at a time: stop it first, or "
        "record through the bridge (TorchCollector.BRIDGE says why it fails)"
    )
