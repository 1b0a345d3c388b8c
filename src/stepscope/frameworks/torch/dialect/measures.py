"""The numbers that events and averages of torch.profiler have in common."""

from __future__ import annotations

import sys
import warnings
from typing import TYPE_CHECKING, Any

from stepscope.analysis.host.averages import ANNOTATION_KINDS
from stepscope.frameworks.torch.dialect.table import time_text

if TYPE_CHECKING:
    from stepscope.analysis.host.averages import Averages
    from stepscope.frameworks.torch.dialect.event_columns import EventColumns
    from stepscope.trace.model import Trace


_SCOPE_FUNCTION, _SCOPE_BACKWARD, _SCOPE_USER = 0, 1, 7  # as at::RecordScope numbers them


def _renamed(old: str, new: str) -> Any:
    def get(self: object) -> Any:
        message = f"`{old}` is deprecated, please use `{new}` instead."
        warnings.warn(message, FutureWarning, stacklevel=2)
        return getattr(self, new)

    return property(get, doc=f"Return ``{new}``, under its old name.")


def _spelled(name: str) -> Any:
    def get(self: object) -> str:
        return time_text(getattr(self, name))

    return property(get, doc=f"Return ``{name}`` with its unit.")


def _number_of(column: str, what: str) -> Any:
    def get(self: Measures) -> int:
        numbers = getattr(self._rows, column)
        return 0 if numbers is None else int(numbers[self._index])

    return property(get, doc=f"Return {what}; 0 where they are not known.")


class Measures:
    """The numbers of one row of averages, in µs."""

    __slots__ = ("_columns", "_index", "_rows")

    def __init__(self, columns: EventColumns, rows: Averages, index: int) -> None:
        self._columns = columns
        self._rows = rows
        self._index = index

    is_remote = False
    is_legacy = False
    node_id = -1

    cpu_memory_usage = _number_of(
        "cpu_bytes", "the bytes allocated less those freed, children's too"
    )
    self_cpu_memory_usage = _number_of("self_cpu_bytes", "the same without the children")
    device_memory_usage = _number_of("device_bytes", "the bytes allocated less freed on the device")
    self_device_memory_usage = _number_of("self_device_bytes", "the same without the children")
    flops = _number_of(
        "flops", "the floating-point operations, where ``with_flops`` asked for them"
    )

    cpu_time_str = _spelled("cpu_time")
    device_time_str = _spelled("device_time")
    cpu_time_total_str = _spelled("cpu_time_total")
    device_time_total_str = _spelled("device_time_total")
    self_cpu_time_total_str = _spelled("self_cpu_time_total")
    self_device_time_total_str = _spelled("self_device_time_total")

    cuda_time = _renamed("cuda_time", "device_time")
    cuda_time_total = _renamed("cuda_time_total", "device_time_total")
    self_cuda_time_total = _renamed("self_cuda_time_total", "self_device_time_total")
    cuda_memory_usage = _renamed("cuda_memory_usage", "device_memory_usage")
    self_cuda_memory_usage = _renamed("self_cuda_memory_usage", "self_device_memory_usage")

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Measures):
            return NotImplemented
        return self._rows is other._rows and self._index == other._index

    def __hash__(self) -> int:
        return hash((id(self._rows), self._index))

    @property  # type: ignore[misc]
    def __class__(self) -> type:
        util = sys.modules.get("torch.autograd.profiler_util")
        torch_class: type = getattr(util, type(self).__name__, type(self))
        return torch_class

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self)._of, (self._columns, self._rows, self._index)

    @classmethod
    def _of(cls, columns: EventColumns, rows: Averages, index: int) -> Measures:
        made = cls.__new__(cls)
        Measures.__init__(made, columns, rows, index)
        return made

    @property
    def key(self) -> str:
        return self._rows.key[self._index]

    @property
    def count(self) -> int:
        return int(self._rows.count[self._index])

    @property
    def cpu_time_total(self) -> float:
        """Return the time on the host, children included."""
        return int(self._rows.cpu_ns[self._index]) / 1000

    @property
    def self_cpu_time_total(self) -> float:
        """Return the time on the host, children excluded."""
        return int(self._rows.self_cpu_ns[self._index]) / 1000

    @property
    def device_time_total(self) -> float:
        """Return the time on the device, including what children launched."""
        return int(self._rows.device_ns[self._index]) / 1000

    @property
    def self_device_time_total(self) -> float:
        """Return the time on the device, excluding what children launched."""
        return int(self._rows.self_device_ns[self._index]) / 1000

    @property
    def cpu_time(self) -> float:
        """Return the average time on the host."""
        return self.cpu_time_total / self.count

    @property
    def device_time(self) -> float:
        """Return the average time on the device."""
        return self.device_time_total / self.count

    @property
    def flops_per_second(self) -> float:
        """Return the FLOP/s of the calls, by device time if there is any, else by host time."""
        ns = self._rows.device_ns[self._index] or self._rows.cpu_ns[self._index]
        return self.flops * 1e9 / int(ns) if ns else 0.0

    @property
    def is_async(self) -> bool:
        """Tell whether it ended on another thread than it started on."""
        return bool(self._rows.is_async[self._index])

    @property
    def is_user_annotation(self) -> bool:
        """Tell whether it is a range that the user named."""
        return bool(self._rows.is_annotation[self._index])

    @property
    def use_device(self) -> str | None:
        """Return the name of the device whose work was recorded, or None."""
        return self._columns.use_device

    @property
    def device_type(self) -> Any:
        return self._columns.device_type(bool(self._rows.is_device[self._index]))

    @property
    def scope(self) -> int:
        """Return at::RecordScope's number: a function 0, a backward one 1, a user's range 7."""
        row = self._row
        if self._columns.is_backward[row]:
            return _SCOPE_BACKWARD
        kind = self._trace.slices.kind[row]
        return _SCOPE_USER if kind in ANNOTATION_KINDS else _SCOPE_FUNCTION

    @property
    def _event(self) -> int:
        return int(self._rows.first[self._index])

    @property
    def _row(self) -> int:
        return self._columns.tree.row(self._event)

    @property
    def _trace(self) -> Trace:
        return self._columns.tree.trace
