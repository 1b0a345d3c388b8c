"""The columns behind the elements of a result list, computed once per trace."""

from __future__ import annotations

import sys
from dataclasses import replace
from enum import Enum, IntEnum, auto
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any

from stepscope.analysis.base.labels import overload_labels, shape_labels
from stepscope.analysis.base.tree import call_tree
from stepscope.analysis.calls.backward import backward_functions
from stepscope.analysis.calls.launches import device_name, launched_work, launches
from stepscope.analysis.code.stacks import stack_labels, stack_of_events
from stepscope.analysis.host.averages import single_events
from stepscope.analysis.memory.by_event import with_memory
from stepscope.formats.chrome.flows import forward_backward_links
from stepscope.formats.chrome.python_ids import python_ids

if TYPE_CHECKING:
    from collections.abc import Callable

    from stepscope.analysis.base.labels import Labels
    from stepscope.analysis.base.tree import CallTree
    from stepscope.analysis.calls.launches import Launches
    from stepscope.analysis.code.stacks import KnownStacks
    from stepscope.analysis.host.averages import Averages
    from stepscope.formats.chrome.python_ids import PythonIds
    from stepscope.trace.model import Bool, Trace


class DeviceType(IntEnum):
    """torch.autograd.DeviceType: the same names and values, and equal to torch's own members."""

    CPU = 0
    CUDA = 1
    MKLDNN = 2
    OPENGL = 3
    OPENCL = 4
    IDEEP = 5
    HIP = 6
    FPGA = 7
    MAIA = 8
    XLA = 9
    Vulkan = 10
    Metal = 11
    XPU = 12
    MPS = 13
    Meta = 14
    HPU = 15
    VE = 16
    Lazy = 17
    IPU = 18
    MTIA = 19
    PrivateUse1 = 20

    def __eq__(self, other: object) -> bool:
        if type(other).__name__ == "DeviceType":
            return getattr(other, "name", None) == self.name
        return int.__eq__(self, other) if isinstance(other, int) else NotImplemented

    def __hash__(self) -> int:
        return hash(self.value)


class Fields(Enum):
    """Which fields of an event are its metadata, and in whose spelling the others are."""

    ALL = auto()
    TORCH_NONE = auto()  # torch shows its own fields only on request
    TORCH = auto()


class EventColumns:
    """The columns behind the events of one trace, computed on first use."""

    def __init__(
        self,
        trace: Trace,
        *,
        with_flops: bool = False,
        modules: bool = False,
        overloads: bool = True,
        fields: Fields = Fields.ALL,
        folds: bool = True,
    ) -> None:
        """Flops and the calls of modules are computed only on request.

        Without ``folds``, only children of the same name stay, and memory outside of events is
        left out.
        """
        self.trace = trace
        self._with_flops = with_flops
        self._modules = modules
        self.overloads = overloads
        self.fields = fields
        self._folds = folds

    def __reduce__(self) -> tuple[Callable[[Trace], EventColumns], tuple[Trace]]:
        make = partial(
            EventColumns,
            with_flops=self._with_flops,
            modules=self._modules,
            overloads=self.overloads,
            fields=self.fields,
            folds=self._folds,
        )
        return make, (self.trace,)

    @cached_property
    def tree(self) -> CallTree:
        """Which slices are events, how they nest, and their bytes.

        Its trace has additional slices for memory that belongs to no event.
        """
        tree = call_tree(self.trace, modules=self._modules, fold=self._folds)
        return with_memory(tree) if self._folds else tree

    @cached_property
    def rows(self) -> Averages:
        """The measures of every event."""
        return single_events(self.tree, with_flops=self._with_flops)

    def keyed(self, *, shapes: bool, overloads: bool, stack_frames: int | None) -> Averages:
        """Return every event with the keys to group by; ``None`` frames means whole stacks."""
        by_stack = stack_frames is None or stack_frames > 0
        return replace(
            self.rows,
            input_shapes=shape_labels(self.tree) if shapes else None,
            overload_name=overload_labels(self.tree) if overloads and self.overloads else None,
            stack=self._stack_labels(stack_frames) if by_stack else None,
        )

    @cached_property
    def stacks(self) -> KnownStacks | None:
        """The Python frames of every event, None where the trace has none."""
        return stack_of_events(self.tree)

    @cached_property
    def is_backward(self) -> Bool:
        """Which slices of the tree's trace are functions of the backward pass."""
        return backward_functions(self.tree.trace)

    @cached_property
    def python_ids(self) -> PythonIds:
        """The numbers of the Python calls among the slices of the tree's trace."""
        return python_ids(self.tree.trace)

    @cached_property
    def flows(self) -> dict[int, tuple[int, int, bool]]:
        """The flow at each slice: its number, its kind, and whether it starts there.

        Torch's kinds are 1, from an operator to its backward function, and 2, to device work.
        """
        trace = self.tree.trace
        operators, functions = forward_backward_links(trace)
        work, calls = launched_work(trace)
        flow_of: dict[int, tuple[int, int, bool]] = {}
        for kind, starts, ends, numbers in (
            (1, operators, functions, range(1, len(operators) + 1)),
            (2, calls, work, trace.slices.correlation[work].tolist()),
        ):
            for start, end, number in zip(starts.tolist(), ends.tolist(), numbers, strict=True):
                flow_of[start] = (number, kind, True)
                flow_of[end] = (number, kind, False)
        return flow_of

    @cached_property
    def launches(self) -> Launches | None:
        """Which event launched which device work."""
        return launches(self.tree)

    @cached_property
    def use_device(self) -> str | None:
        """The name of the device in the trace, None without one."""
        return device_name(self.trace)

    def device_type(self, on_device: bool) -> Any:
        """Return torch's enum member if torch is in use, else ours."""
        name = "CPU"
        if on_device:
            device = self.use_device or ""
            name = {"mtia": "MTIA", "xpu": "XPU", "privateuse1": "PrivateUse1"}.get(device, "CUDA")
        autograd = getattr(sys.modules.get("torch"), "autograd", None)
        return getattr(getattr(autograd, "DeviceType", DeviceType), name)

    def _stack_labels(self, frames: int | None) -> Labels[tuple[str, ...]]:
        return stack_labels(self.stacks, len(self.tree), self.tree.trace.strings, frames)
