"""torch.profiler's results: lists of events and of averages over a Trace's columns.

An element becomes a Python object when it is indexed, and not before.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from typing import TYPE_CHECKING, TypeVar, overload

from stepscope.analysis.averages import grouped, single_events, total_of
from stepscope.errors import UnsupportedError
from stepscope.export.table import Layout, table
from stepscope.torch.columns import EventColumns
from stepscope.torch.event import FunctionEvent, FunctionEventAvg

if TYPE_CHECKING:
    import os

    import polars

    from stepscope.analysis.averages import Averages
    from stepscope.trace.model import Trace

_Item = TypeVar("_Item", FunctionEvent, FunctionEventAvg)


class _Results(Sequence[_Item]):
    """What a list of events and a list of averages have in common."""

    def __init__(self, columns: EventColumns) -> None:
        self._columns = columns

    @property
    @abstractmethod
    def _rows(self) -> Averages: ...

    @abstractmethod
    def _item(self, index: int) -> _Item: ...

    def __len__(self) -> int:
        """Return the number of elements."""
        return len(self._rows)

    @overload
    def __getitem__(self, index: int) -> _Item: ...
    @overload
    def __getitem__(self, index: slice) -> list[_Item]: ...
    def __getitem__(self, index: int | slice) -> _Item | list[_Item]:
        """Make one element, or a list of them."""
        if isinstance(index, slice):
            return [self._item(i) for i in range(len(self))[index]]
        try:
            return self._item(range(len(self))[index])
        except IndexError:
            raise IndexError(f"event {index} of {len(self)}") from None

    def __str__(self) -> str:
        """Return the table."""
        return self.table()

    @property
    def self_cpu_time_total(self) -> float:
        """Return the time on the host in µs, no moment of one thread counted twice."""
        return self._rows.total_self_cpu_ns / 1000

    def total_average(self) -> FunctionEventAvg:
        """Return the sum of all elements."""
        return FunctionEventAvg(self._columns, total_of(self._rows), 0)

    def table(  # noqa: PLR0917 - torch's signature
        self,
        sort_by: str | None = None,
        row_limit: int = 100,
        max_src_column_width: int | None = 75,
        max_name_column_width: int | None = 55,
        max_shapes_column_width: int | None = 80,
        header: str | None = None,
        top_level_events_only: bool = False,
        time_unit: str | None = None,
    ) -> str:
        """Return the elements as a table, the largest first where ``sort_by`` names a column.

        ``row_limit=-1`` shows all rows. ``time_unit`` is s, ms or us; by default each time has the
        unit that suits it. ``max_src_column_width`` is for stacks, which are not recorded yet.
        """
        layout = Layout(
            sort_by=sort_by,
            row_limit=row_limit,
            max_name_width=max_name_column_width,
            max_shapes_width=max_shapes_column_width,
            header=header,
            top_level_only=top_level_events_only,
            time_unit=time_unit,
        )
        columns = self._columns
        return table(
            self._table_rows(), layout, device=columns.use_device, losses=columns.trace.losses
        )

    def _table_rows(self) -> Averages:
        return self._rows

    def export_chrome_trace(self, path: str | os.PathLike[str]) -> None:
        """Write the whole trace for Chrome and Perfetto, compressed when ``path`` ends in .gz."""
        from stepscope.export.chrome import export_chrome

        export_chrome(self._columns.trace, path)

    def export_stacks(self, path: str | os.PathLike[str], metric: str) -> None:
        """Refuse: there are no stacks in a trace yet."""
        raise UnsupportedError(
            f"export_stacks({str(path)!r}, {metric!r}): this trace holds no Python stacks;"
            " export_chrome_trace(path) shows which call was inside which"
        )

    def to_polars(self) -> polars.DataFrame:
        """Return the elements as a Polars DataFrame; all times in ns."""
        return self._rows.to_polars()


class EventList(_Results[FunctionEvent]):
    """Every event of a trace, by start, the longer first."""

    def __init__(self, trace: Trace) -> None:
        """Look at the events of a trace."""
        super().__init__(EventColumns(trace))

    def __repr__(self) -> str:
        """Return how many there are; ``str`` shows them."""
        return f"<EventList of {len(self):,} events>"

    def key_averages(
        self,
        group_by_input_shapes: bool = False,
        group_by_stack_n: int = 0,
        group_by_overload_name: bool = False,
        *,
        group_by_input_shape: bool = False,
    ) -> AverageList:
        """Sum the events by name, and by shapes or overload where asked.

        Events without stacks, as all are yet, are one group whatever ``group_by_stack_n`` says.
        """
        by_shapes = group_by_input_shapes or group_by_input_shape
        each = self._columns.each
        if by_shapes or group_by_overload_name:
            tree = self._columns.tree
            each = single_events(tree, by_shapes=by_shapes, by_overload=group_by_overload_name)
        return AverageList(self._columns, grouped(each))

    @property
    def _rows(self) -> Averages:
        return self._columns.each

    def _table_rows(self) -> Averages:
        return single_events(self._columns.tree, by_shapes=True, by_overload=True)

    def _item(self, index: int) -> FunctionEvent:
        return FunctionEvent(self._columns, index)


class AverageList(_Results[FunctionEventAvg]):
    """Events summed by name, in the order in which the names were first seen."""

    def __init__(self, columns: EventColumns, groups: Averages) -> None:
        """Look at the groups of a trace's events."""
        super().__init__(columns)
        self._groups = groups

    def __repr__(self) -> str:
        """Return how many there are; ``str`` shows them."""
        return f"<AverageList of {len(self):,} names>"

    @property
    def _rows(self) -> Averages:
        return self._groups

    def _item(self, index: int) -> FunctionEventAvg:
        return FunctionEventAvg(self._columns, self._groups, index)
