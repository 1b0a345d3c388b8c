"""torch.profiler's results: lists of events and of averages over a Trace's columns.

An element becomes a Python object when it is indexed, and not before.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from typing import TYPE_CHECKING, TypeVar, overload

from stepscope.analysis.host.averages import grouped, polars_frame, total_of
from stepscope.analysis.labels import shape_labels
from stepscope.arguments import flag, whole
from stepscope.frameworks.torch.dialect.columns import EventColumns
from stepscope.frameworks.torch.dialect.event import FunctionEvent, FunctionEventAvg
from stepscope.notices import warn_user
from stepscope.text.averages import Layout, table

if TYPE_CHECKING:
    import os

    import pandas
    import polars

    from stepscope.analysis.host.averages import Averages, Columns
    from stepscope.trace.model import Trace

_ROWS_IN_A_NOTEBOOK = 50

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
            return self._item(range(len(self))[whole("index", index, "or a slice")])
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
        unit that suits it. ``max_src_column_width`` is for the frames of stacks.
        """
        layout = Layout(
            sort_by=sort_by,
            row_limit=row_limit,
            max_source_width=max_src_column_width,
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
        from stepscope.formats.chrome.write import export_chrome

        export_chrome(self._columns.trace, path)

    def export_stacks(
        self,
        path: str | os.PathLike[str],
        metric: str = "self_cpu_time_total",
        *,
        names: bool = False,
    ) -> None:
        """Write the self time of every Python stack, folded for FlameGraph and speedscope.

        ``metric`` is ``self_cpu_time_total``, or ``self_cuda_time_total`` for the device's time.
        ``names=True`` ends each stack with the name of the operator or range.
        """
        from stepscope.formats.stacks import export_stacks

        export_stacks(self._columns.trace, path, metric=metric, names=names)

    def to_polars(self) -> polars.DataFrame:
        """Return the elements as a Polars DataFrame; times in ns, sizes in bytes."""
        return polars_frame(self._data())

    def to_pandas(self) -> pandas.DataFrame:
        """Return the elements as a pandas DataFrame; times in ns, sizes in bytes."""
        import pandas as pd

        return pd.DataFrame(self._data())

    def to_csv(self, path: str | os.PathLike[str]) -> None:
        """Write the elements as CSV; times in ns, sizes in bytes."""
        from stepscope.formats.records import write_csv

        write_csv(self._data(), path)

    def to_json(self, path: str | os.PathLike[str]) -> None:
        """Write the elements as a JSON array of objects; times in ns, sizes in bytes."""
        from stepscope.formats.records import write_json

        write_json(self._data(), path)

    def _data(self) -> Columns:
        return self._rows.to_columns()


class EventList(_Results[FunctionEvent]):
    """Every event of a trace, by start, the longer first."""

    def __init__(self, trace: Trace, *, with_flops: bool = False, modules: bool = False) -> None:
        """Look at the events of a trace.

        ``with_flops`` counts the arithmetic of the operators whose shapes were recorded;
        ``modules`` makes the calls of modules events, too.
        """
        super().__init__(EventColumns(trace, with_flops=with_flops, modules=modules))

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
        """Sum the events by name, and by shapes, overload or the innermost frames where asked.

        ``group_by_stack_n`` is how many frames of the Python stack tell events apart.
        """
        frames = whole("group_by_stack_n", group_by_stack_n, "0 for none")
        shapes = flag("group_by_input_shape", group_by_input_shapes or group_by_input_shape)
        each = self._columns.told_apart(
            shapes=shapes,
            overloads=flag("group_by_overload_name", group_by_overload_name),
            stack_frames=frames,
        )
        return AverageList(self._columns, grouped(each))

    def warn_of_missing(self, *, shapes: bool, frames: int) -> None:
        """Say that events cannot be told apart by what was not recorded."""
        if not len(self):
            return
        if shapes and not set(shape_labels(self._columns.tree).texts) - {"", "[]"}:
            warn_user(
                "key_averages(group_by_input_shape=True): no event has shapes, so that none is "
                "told apart by them; record with record_shapes=True"
            )
        if frames > 0 and self._columns.stacks is None:
            warn_user(
                f"key_averages(group_by_stack_n={frames}): no event has a stack, so that none is "
                "told apart by it; record with with_stack=True"
            )

    @property
    def _rows(self) -> Averages:
        return self._columns.each

    def _table_rows(self) -> Averages:
        return self._columns.told_apart(shapes=True, overloads=True, stack_frames=None)

    def _data(self) -> Columns:
        tree = self._columns.tree
        tracks = tree.of(tree.trace.slices.track)
        rows = self._table_rows().to_columns()
        key = rows.pop("key")
        return {"name": key, "start_ns": tree.start_ns, "track": tracks, **rows}

    def _item(self, index: int) -> FunctionEvent:
        return FunctionEvent(self._columns, index)


class AverageList(_Results[FunctionEventAvg]):
    """Events summed by name, in the order in which the names were first seen."""

    def __init__(self, columns: EventColumns, groups: Averages) -> None:
        """Look at the groups of a trace's events."""
        super().__init__(columns)
        self._groups = groups

    def _repr_html_(self) -> str:
        """Return the table for a notebook, those that took longest first."""
        from stepscope.report.notebook import table_html
        from stepscope.text.averages import table_cells

        layout = Layout(sort_by="self_cpu_time_total", row_limit=_ROWS_IN_A_NOTEBOOK)
        headings, cells = table_cells(self._rows, layout, device=self._columns.use_device)
        left = len(self) - len(cells)
        note = f"and {left:,} more: table(row_limit=-1) or to_pandas() has all" if left else ""
        return table_html(headings, cells, note)

    def __repr__(self) -> str:
        """Return how many there are; ``str`` shows them."""
        return f"<AverageList of {len(self):,} names>"

    @property
    def _rows(self) -> Averages:
        return self._groups

    def _item(self, index: int) -> FunctionEventAvg:
        return FunctionEventAvg(self._columns, self._groups, index)
