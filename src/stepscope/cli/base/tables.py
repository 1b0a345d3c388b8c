"""The tables of the command line: by operator or by module, as text and as a file."""

from __future__ import annotations

import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from stepscope.cli.base.streams import out
from stepscope.errors import StepscopeError, UnsupportedError
from stepscope.frameworks.torch.dialect.event_lists import EventList
from stepscope.trace.keys import INPUT_DIMS

if TYPE_CHECKING:
    from stepscope.analysis.answer import Answer
    from stepscope.trace.model import Trace

_PLAIN_WIDTH = 110  # where the output is no terminal
_NAME_WIDTH = 55
_NARROWEST_NAME = 24
_OTHER_COLUMNS_WIDTH = 86
_FILE_KINDS = (".csv", ".json")


@dataclass(frozen=True, slots=True)
class Grouping:
    """How calls of one operator are grouped into rows, and whether FLOPs are counted."""

    by_shape: bool = False
    by_stack: int = 0
    by_overload: bool = False
    flops: bool = False


def check_table_file(path: str | None) -> None:
    """Raise StepscopeError for a file that no table can be written to."""
    if path is not None and Path(path.removesuffix(".gz")).suffix not in _FILE_KINDS:
        kinds = " or ".join(_FILE_KINDS)
        raise StepscopeError(f"{path}: a table is saved as {kinds}, also with .gz")


def table_text(
    trace: Trace,
    sort_by: str,
    row_limit: int,
    grouping: Grouping | None = None,
    save_as: str | None = None,
) -> str:
    """Return the table of operators, as wide as the terminal where there is one."""
    grouping = grouping or Grouping()
    _check_answerable(trace, grouping)
    averages = EventList(trace, with_flops=grouping.flops).key_averages(
        group_by_input_shape=grouping.by_shape,
        group_by_stack_n=grouping.by_stack,
        group_by_overload_name=grouping.by_overload,
    )
    if save_as is not None:
        is_csv = save_as.removesuffix(".gz").endswith(".csv")
        (averages.to_csv if is_csv else averages.to_json)(save_as)
    width = _NAME_WIDTH
    if out().isatty():
        room = shutil.get_terminal_size().columns - _OTHER_COLUMNS_WIDTH
        width = min(max(room, _NARROWEST_NAME), _NAME_WIDTH)
    try:
        return averages.table(sort_by, row_limit, max_name_column_width=width)
    except AttributeError as error:
        raise StepscopeError(str(error)) from None


def _check_answerable(trace: Trace, grouping: Grouping) -> None:
    """Raise UnsupportedError for a table that would not differ from the plain one."""
    from stepscope.analysis.base.tree import distinct_ids
    from stepscope.analysis.code.stacks import stack_of_slices
    from stepscope.analysis.flops.count import flops_of

    if not len(trace):
        return
    if grouping.by_stack and stack_of_slices(trace) is None:
        raise UnsupportedError(
            "the trace holds no stacks to group by: record with with_stack=True, or `run --stacks`"
        )
    rest, strings = trace.slices.args.rest, trace.strings
    if grouping.by_shape and not any(INPUT_DIMS in strings[int(i)] for i in distinct_ids(rest)):
        raise UnsupportedError(
            "the trace holds no shapes to group by: record with record_shapes=True, or "
            "`run --shapes`"
        )
    if grouping.flops and not flops_of(trace).any():
        raise UnsupportedError(
            "the trace holds no operators whose FLOPs can be counted, or not the shapes of their "
            "inputs: record with with_flops=True, or `run --shapes`"
        )


def step_table_text(trace: Trace, answer: Answer, sort_by: str, row_limit: int) -> str:
    """Return the operators of an average step, as wide as the terminal where there is one."""
    from stepscope.analysis.host.step_operators import step_operators
    from stepscope.text.answer import operators_text

    wide = shutil.get_terminal_size().columns if out().isatty() else _PLAIN_WIDTH
    return operators_text(step_operators(trace), answer, sort_by, row_limit, wide)


def modules_text(
    trace: Trace, depth: int | None, row_limit: int, save_as: str | None = None
) -> str:
    """Return the table of modules, down to a depth."""
    from stepscope.analysis.host.modules import module_table
    from stepscope.text.modules import export_module_table, module_table_text

    rows = module_table(trace, depth)
    if not any(rows.model):
        raise UnsupportedError(
            "the trace holds no modules: record with with_modules=True, or `run --modules`"
        )
    if save_as is not None:
        export_module_table(rows, save_as)
    return module_table_text(rows, row_limit=row_limit)
