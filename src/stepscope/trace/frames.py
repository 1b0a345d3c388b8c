"""The Trace as data frames: ids spelled out, one row a slice.

Texts are Polars categoricals made from the codes that the trace holds, so that a million rows cost
no Python object.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import polars as pl

from stepscope.trace.model import SliceFlags, SliceKind

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from numpy.typing import NDArray

    from stepscope.trace.model import Trace, UInt8
    from stepscope.trace.strings import Strings

KIND_WORDS = tuple(kind.name.lower() for kind in SliceKind)


def slices_frame(trace: Trace, args: Iterable[str] = ()) -> pl.DataFrame:
    """Return one row a slice, in the trace's order.

    ==================  ==========================================================================
    ``name``            what ran
    ``kind``            what it is: ``operator``, ``range``, ``step``, ``kernel`` ...
    ``category``        the word of the tool that recorded it: ``cpu_op``, ``user_annotation`` ...
    ``overload``        the operator's overload, empty for everything else
    ``start_ns``        on the trace's clock; ``trace.info.wall_offset_ns`` leads to Unix time
    ``duration_ns``     children included
    ``self_ns``         children excluded
    ``pid``, ``tid``    process and thread, or device and stream, as the tool wrote them
    ``process``         the process's name
    ``thread``          the thread's name
    ``step``            the number of the step it started in, null outside
    ``parent``          the row of the slice around it, null at the top
    ``depth``           the number of slices around it
    ``sequence``        ties a backward function to its forward operator, null without
    ``forward_thread``  the framework's number of the forward thread, null without
    ``correlation``     ties device work to its launch, null without
    ``backward``        whether it is a function of the backward pass
    ``unfinished``      whether it was still open when recording stopped
    ==================  ==========================================================================

    Each key of ``args`` adds a column with that integer argument, null where a slice has none.
    """
    slices, tracks = trace.slices, trace.tracks
    columns = {
        "name": categorical(trace.strings, slices.name),
        "kind": kind_series(slices.kind),
        "category": categorical(trace.strings, slices.category),
        "overload": categorical(trace.strings, slices.overload),
        "start_ns": pl.Series(slices.start_ns),
        "duration_ns": pl.Series(slices.duration_ns),
        "self_ns": pl.Series(slices.self_ns),
        "pid": _by_code([track.pid for track in tracks], slices.track),
        "tid": _by_code([track.tid for track in tracks], slices.track),
        "process": _by_code([track.process_name for track in tracks], slices.track),
        "thread": _by_code([track.thread_name for track in tracks], slices.track),
        "step": _without_negatives(slices.step),
        "parent": _without_negatives(slices.parent),
        "depth": pl.Series(slices.depth),
        "sequence": _without_negatives(slices.sequence),
        "forward_thread": _without_negatives(slices.forward_thread),
        "correlation": _without_negatives(slices.correlation),
        "backward": pl.Series((slices.flags & SliceFlags.BACKWARD) != 0),
        "unfinished": pl.Series((slices.flags & SliceFlags.UNFINISHED) != 0),
    }
    for key in args:
        columns[key] = _integer_arg(trace, key)
    return pl.DataFrame(columns)


def categorical(strings: Strings, ids: NDArray[np.uint32]) -> pl.Series:
    """Return the texts behind string ids as a categorical series."""
    used = np.zeros(len(strings), bool)
    used[ids] = True
    distinct = np.flatnonzero(used)
    code_of_id = np.zeros(len(strings), np.uint32)
    code_of_id[distinct] = np.arange(len(distinct), dtype=np.uint32)
    return _by_code([strings[int(i)] for i in distinct], code_of_id[ids])


def kind_series(kinds: UInt8) -> pl.Series:
    """Return the words for slice kinds."""
    return pl.Series(KIND_WORDS, dtype=pl.Enum(KIND_WORDS)).gather(kinds.astype(np.uint32))


def valid_text(text: str) -> str:
    """Replace lone surrogates, which UTF-8 and so Arrow cannot hold."""
    return text.encode("utf-8", "surrogatepass").decode("utf-8", "replace")


def _by_code(texts: Sequence[str], codes: NDArray[np.uint32]) -> pl.Series:
    words = pl.Series([valid_text(text) for text in texts], dtype=pl.Categorical)
    return words.gather(codes)


def _without_negatives(column: NDArray[np.int32] | NDArray[np.int64]) -> pl.Series:
    """Make the trace's -1, which stands for nothing, a null."""
    series = pl.Series(column)
    return series.set(series < 0, None)


def _integer_arg(trace: Trace, key: str) -> pl.Series:
    column = trace.slices.args.integers.get(key)
    series = pl.repeat(None, len(trace.slices), dtype=pl.Int64, eager=True)
    return series if column is None else series.scatter(column.rows, column.values)
