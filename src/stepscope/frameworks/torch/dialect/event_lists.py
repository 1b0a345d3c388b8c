"""torch.profiler's results: lists of events and of averages over a Trace's columns.

An element becomes a Python object when it is indexed, and not before.
"""

from __future__ import annotations

import sys
from abc import abstractmethod
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from stepscope.analysis.base.labels import shape_labels
from stepscope.analysis.host.averages import grouped, polars_frame, total_of
from stepscope.arguments import flag, whole
from stepscope.frameworks.torch.dialect.event_columns import EventColumns, Fields
from stepscope.frameworks.torch.dialect.function_event import FunctionEvent, FunctionEventAvg
from stepscope.frameworks.torch.dialect.lists import MadeWhenTouched
from stepscope.frameworks.torch.dialect.table import Layout, table
from stepscope.notices import warn_user
from stepscope.trace.build import empty_trace
from stepscope.trace.model import SliceKind, Trace

if TYPE_CHECKING:
    import os
    from collections.abc import Callable, Iterable

    import pandas
    import polars

    from stepscope.analysis.host.averages import Averages, Columns

_ROWS_IN_A_NOTEBOOK = 50

_Item = TypeVar("_Item", FunctionEvent, FunctionEventAvg)
_List = TypeVar("_List", bound="_Results[Any]")


class _Results(MadeWhenTouched[_Item]):
    """What lists of events and lists of averages have in common."""

    _tree_built = True  # torch's lists nest their events on request

    def __init__(self, columns: EventColumns, elements: Iterable[Any] | None = None) -> None:
        super().__init__(elements)
        self._columns = columns

    @property
    @abstractmethod
    def _all_rows(self) -> Averages:
        """The rows of all elements that can be made."""

    def _size(self) -> int:
        return len(self._all_rows)

    @property
    def _rows(self) -> Averages:
        """The rows of the current elements, in their order."""
        if not self._made:
            return self._all_rows
        of_elements = _rows_behind(list(self))
        if of_elements is None:
            raise TypeError("the list holds events that Stepscope did not record")
        return of_elements

    @property  # type: ignore[misc]
    def __class__(self) -> type:
        return _torch_class("EventList", type(self))

    def __reduce_ex__(self, _protocol: Any) -> tuple[Any, ...]:
        elements = list(self) if self._made else None
        return _restored, (type(self), self.__dict__, elements)

    def __str__(self) -> str:
        return self.table()

    @property
    def self_cpu_time_total(self) -> float:
        """Return the time on the host in µs; nested events count once."""
        if self._is_foreign:
            return sum(event.self_cpu_time_total for event in self)
        return self._rows.total_self_cpu_ns / 1000

    def total_average(self) -> FunctionEventAvg:
        if self._is_foreign:
            return self._as_torchs("total_average")()  # type: ignore[no-any-return]
        return FunctionEventAvg(self._columns, total_of(self._rows), 0)

    @property
    def _is_foreign(self) -> bool:
        """Tell whether the list holds events of torch's, or of several recordings."""
        return self._made and len(self) > 0 and _rows_behind(list(self)) is None

    def _as_torchs(self, method: str) -> Callable[..., Any]:
        from torch.autograd.profiler_util import EventList as TorchList

        theirs = TorchList(list(self), use_device=self._columns.use_device)
        theirs._tree_built = True
        return getattr(theirs, method)  # type: ignore[no-any-return]

    def _build_tree(self) -> None:
        """Do nothing: events are nested already."""

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
        """Return the elements as a table, the largest first if ``sort_by`` names a column.

        ``row_limit=-1`` shows all rows. ``time_unit`` is s, ms or us; by default each time has the
        unit that suits it. ``max_src_column_width`` is for the frames of stacks.
        """
        if self._is_foreign:
            arguments = {k: v for k, v in locals().items() if k != "self"}
            return self._as_torchs("table")(**arguments)  # type: ignore[no-any-return]
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
    """The events of a trace by start; of two with the same start, the longer comes first."""

    def __init__(
        self,
        events: Trace | Iterable[Any] = (),
        *,
        use_device: str | None = None,
        profile_memory: bool = False,
        with_flops: bool = False,
        modules: bool = False,
        overloads: bool = True,
        fields: Fields = Fields.ALL,
    ) -> None:
        """Show the events of a trace, or hold the given events.

        ``with_flops`` counts the operations of operators whose shapes were recorded; ``modules``
        adds the calls of modules; ``overloads=False`` omits the overloads of operators. The others
        are torch's, for given events.
        """
        self._use_device = use_device
        self._profile_memory = profile_memory
        self._with_flops = with_flops
        if isinstance(events, Trace):
            super().__init__(
                EventColumns(
                    events,
                    with_flops=with_flops,
                    modules=modules,
                    overloads=overloads,
                    fields=fields,
                )
            )
            self._use_device = self._columns.use_device
        else:
            elements = list(events)
            columns = next((e._columns for e in elements if isinstance(e, FunctionEvent)), None)
            super().__init__(columns or EventColumns(empty_trace()), elements)

    def __repr__(self) -> str:
        return f"<EventList of {len(self):,} events>"

    def key_averages(
        self,
        group_by_input_shapes: bool = False,
        group_by_stack_n: int = 0,
        group_by_overload_name: bool = False,
        include_python_functions: bool = False,
        *,
        group_by_input_shape: bool = False,
    ) -> AverageList:
        """Sum the events by name, and on request by shapes, overload or innermost frames.

        ``group_by_stack_n`` is the number of Python frames to group by. Calls of Python functions
        are included only on request.
        """
        frames = whole("group_by_stack_n", group_by_stack_n, "0 for none")
        shapes = flag("group_by_input_shape", group_by_input_shapes or group_by_input_shape)
        if self._is_foreign:
            theirs = self._as_torchs("key_averages")
            return theirs(shapes, frames, group_by_overload_name)  # type: ignore[no-any-return]
        rows = self._columns.keyed(
            shapes=shapes,
            overloads=flag("group_by_overload_name", group_by_overload_name),
            stack_frames=frames,
        )
        if self._made:
            rows = rows.take(self._rows.first)
        if not include_python_functions:
            tree = self._columns.tree
            is_call = tree.of(tree.trace.slices.kind)[rows.first] == SliceKind.PYTHON
            if is_call.any():
                rows = rows.take(np.flatnonzero(~is_call))
        return AverageList(self._columns, grouped(rows))

    def supported_export_stacks_metrics(self) -> list[str]:
        """Return the metrics that export_stacks() knows."""
        return ["self_cpu_time_total", "self_cuda_time_total", "self_xpu_time_total"]

    def warn_of_missing(self, *, shapes: bool, frames: int) -> None:
        """Warn if events were to be grouped by what was not recorded."""
        if not len(self):
            return
        if shapes and not set(shape_labels(self._columns.tree).texts) - {"", "[]"}:
            warn_user(
                "key_averages(group_by_input_shape=True): no event has shapes, so events "
                "cannot be grouped by them; record with record_shapes=True"
            )
        if frames > 0 and self._columns.stacks is None:
            warn_user(
                f"key_averages(group_by_stack_n={frames}): no event has a stack, so events "
                "cannot be grouped by it; record with with_stack=True"
            )

    @property
    def _all_rows(self) -> Averages:
        return self._columns.rows

    def _table_rows(self) -> Averages:
        rows = self._columns.keyed(shapes=True, overloads=True, stack_frames=None)
        return rows.take(self._rows.first) if self._made else rows

    def _data(self) -> Columns:
        tree = self._columns.tree
        first = self._rows.first
        tracks = tree.of(tree.trace.slices.track)[first]
        rows = self._table_rows().to_columns()
        key = rows.pop("key")
        return {"name": key, "start_ns": tree.start_ns[first], "track": tracks, **rows}

    def _make(self, index: int) -> FunctionEvent:
        return FunctionEvent(self._columns, index)


class AverageList(_Results[FunctionEventAvg]):
    """Events summed by name; names are in the order of their first event."""

    def __init__(self, columns: EventColumns, groups: Averages) -> None:
        super().__init__(columns)
        self._groups = groups

    def _repr_html_(self) -> str:
        from stepscope.frameworks.torch.dialect.table import table_cells
        from stepscope.report.notebook import table_html

        layout = Layout(sort_by="self_cpu_time_total", row_limit=_ROWS_IN_A_NOTEBOOK)
        headings, cells = table_cells(self._rows, layout, device=self._columns.use_device)
        hidden = len(self) - len(cells)
        note = f"and {hidden:,} more: table(row_limit=-1) or to_pandas() has all" if hidden else ""
        return table_html(headings, cells, note)

    def __repr__(self) -> str:
        return f"<AverageList of {len(self):,} names>"

    @property
    def _all_rows(self) -> Averages:
        return self._groups

    def _make(self, index: int) -> FunctionEventAvg:
        return FunctionEventAvg(self._columns, self._groups, index)


def _rows_behind(elements: list[Any]) -> Averages | None:
    """Return the rows behind views of one table; None if they have several."""
    from stepscope.frameworks.torch.dialect.function_event import row_behind

    places = [row_behind(element) for element in elements]
    tables = {id(row[0]): row[0] for row in places if row is not None}
    if len(tables) != 1 or None in places:
        return None
    (table_of_all,) = tables.values()
    return table_of_all.take(np.array([row[1] for row in places if row], np.int64))


def _restored(cls: type[_List], state: dict[str, Any], elements: list[Any] | None) -> _List:
    made = cls.__new__(cls)
    if elements is not None:
        list.extend(made, elements)
    made.__dict__.update(state)
    return made


def _torch_class(name: str, otherwise: type) -> type:
    """Return torch's class of results if the program has imported it."""
    torch_class: type = getattr(sys.modules.get("torch.autograd.profiler_util"), name, otherwise)
    return torch_class
