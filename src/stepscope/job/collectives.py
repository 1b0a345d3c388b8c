"""The collectives of one rank's trace: when it arrived at each, and when it was done.

With communicating kernels on a device, a collective is those kernels: each starts when its rank has
arrived, and runs until all have. Without kernels (gloo, or a trace of the host alone) it is all
host slices with the same process group and sequence number: the earliest start is the arrival, the
latest end is its end. Old traces lack groups and numbers: there the order of calls, which is equal
in all ranks of a group, is the number.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from stepscope.analysis.base.sums import around, distinct_rows, nearest
from stepscope.analysis.base.tree import ids_where, outermost
from stepscope.analysis.device.communication import collective_of_kernel
from stepscope.analysis.work.work import WorkKind, device_work
from stepscope.trace.element_types import element_bytes
from stepscope.trace.fragments import pairs_of
from stepscope.trace.keys import (
    COLLECTIVE,
    DESTINATION_RANK,
    DTYPE,
    GROUP_NAME,
    GROUP_RANKS,
    GROUP_SIZE,
    IN_ELEMENTS,
    INPUT_DIMS,
    INPUT_TYPES,
    MODULE,
    NUMBER,
    OUT_ELEMENTS,
    SOURCE_RANK,
)
from stepscope.trace.model import NO_SLICE, Bool, Int64, SliceFlags, SliceKind, Trace
from stepscope.trace.names import BACKEND_COLLECTIVE, plain_collective

NO_NUMBER = -1
_CALL_NAME = re.compile(r"^(record_param_comms|c10d::)")
_POINT_TO_POINT = re.compile(r"send|recv", re.IGNORECASE)
SYNCHRONISING = frozenset({"all_reduce", "all_gather", "reduce_scatter", "all_to_all", "barrier"})
"""No rank leaves one of these before all have arrived."""


class Kind(NamedTuple):
    """The properties that many collectives of a rank share."""

    name: str  # all_reduce, all_gather, ...
    group: str  # the process group's name; "" if unknown
    members: tuple[int, ...]  # global ranks; () if unknown
    group_size: int  # NO_NUMBER if unknown
    dtype: str
    bytes: int  # the larger of input and output; NO_NUMBER if unknown
    module: str
    pair: tuple[int, int]  # the ranks of a point-to-point call, else (NO_NUMBER, NO_NUMBER)


@dataclass(frozen=True, slots=True)
class Collectives:
    """The collectives of one rank in the order of arrival, and their kinds."""

    kinds: tuple[Kind, ...]
    kind: NDArray[np.int32]
    seq: NDArray[np.int64]  # NO_NUMBER where the trace has none
    start_ns: Int64
    end_ns: Int64
    row: Int64  # the slice whose start is the arrival
    host_row: Int64  # of the host's slice, NO_SLICE without
    is_open: Bool  # unfinished when the recording stopped
    on_device: bool

    def __len__(self) -> int:
        return len(self.kind)


def collectives(trace: Trace) -> Collectives:
    work = device_work(trace)
    kernels = work.rows[work.kind == WorkKind.COMMUNICATION]
    if len(kernels):
        host = work.operator[kernels]
        named = _called_by(trace, host)
        return _with_arguments(trace, kernels[:, None], named, on_device=True)
    return _of_host(trace)


def _of_host(trace: Trace) -> Collectives:
    slices = trace.slices
    on_host = ~slices.on_device
    rows = np.zeros(0, np.int64)
    if len(slices.args.rest):
        ids = trace.strings.ids_with(f'"{COLLECTIVE}"')
        rows = np.flatnonzero(np.isin(slices.args.rest, ids) & on_host)
    for pattern in (BACKEND_COLLECTIVE, _CALL_NAME):
        if not len(rows):
            rows = outermost(trace, np.flatnonzero(_has_name(trace, pattern) & on_host))
    parts = _together(trace, rows)
    return _with_arguments(trace, parts, parts[:, 0] if len(parts) else rows, on_device=False)


def _has_name(trace: Trace, pattern: re.Pattern[str]) -> Bool:
    name = trace.slices.name
    ids = ids_where(name, trace.strings, lambda text: pattern.search(text) is not None)
    has_id: Bool = np.isin(name, ids)
    return has_id


def _together(trace: Trace, rows: Int64) -> Int64:
    """Return each collective's slices as a row: the call, and its last part."""
    slices = trace.slices
    if not len(rows):
        return np.zeros((0, 2), np.int64)
    seq = slices.args.dense(NUMBER, len(slices), NO_NUMBER)[rows]
    if (seq == NO_NUMBER).all():
        alone = outermost(trace, rows)
        return np.stack([alone, alone], axis=1)
    kinds, kind = _ArgumentReader(trace).kinds(rows, rows)
    groups: dict[tuple[Any, ...], int] = {}
    group = np.array(
        [groups.setdefault((one.group, one.members, one.pair), len(groups)) for one in kinds]
    )[kind]
    alone = np.where(seq == NO_NUMBER, rows, NO_NUMBER)  # no number: on its own
    keys, code = np.unique(np.stack([group, seq, alone]), axis=1, return_inverse=True)
    code, count = code.reshape(-1), keys.shape[1]
    order = np.lexsort((slices.start_ns[rows], code))
    first = order[np.searchsorted(code[order], np.arange(count))]
    by_end = np.lexsort((slices.ends_of(rows), code))
    last = by_end[np.searchsorted(code[by_end], np.arange(count), side="right") - 1]
    return np.stack([rows[first], rows[last]], axis=1)


def _called_by(trace: Trace, host: Int64) -> Int64:
    """Return each host row's enclosing slice that names the collective, or the row itself."""
    slices = trace.slices
    marked = np.zeros(len(slices), np.bool_)
    if len(slices.args.rest):
        ids = trace.strings.ids_with(f'"{COLLECTIVE}"')
        marked = np.isin(slices.args.rest, ids) & ~slices.on_device
    if not marked.any():
        marked = _has_name(trace, BACKEND_COLLECTIVE) & ~slices.on_device
    callers = around(slices.parent, host, marked, itself=True)
    return np.where(callers == NO_SLICE, host, callers)


def _with_arguments(trace: Trace, parts: Int64, host: Int64, *, on_device: bool) -> Collectives:
    slices = trace.slices
    first, last = (parts[:, 0], parts[:, -1]) if len(parts) else (host, host)
    order = np.argsort(slices.start_ns[first], kind="stable")
    first, last, host = first[order], last[order], host[order]
    kinds, kind = _ArgumentReader(trace).kinds(first, host)
    numbers = slices.args.dense(NUMBER, len(slices), NO_NUMBER)
    seq = numbers[first]
    if len(host):
        has_host = host != NO_SLICE
        seq = np.where((seq == NO_NUMBER) & has_host, numbers[np.where(has_host, host, 0)], seq)
    ended_ns = np.maximum(slices.ends_of(last), slices.ends_of(first))
    return Collectives(
        kinds,
        kind,
        seq,
        slices.start_ns[first],
        ended_ns,
        first,
        host,
        slices.flags[last] & SliceFlags.UNFINISHED != 0,
        on_device,
    )


class _ArgumentReader:
    """Parses the arguments of collectives, each distinct set once."""

    def __init__(self, trace: Trace) -> None:
        self._trace = trace
        slices = trace.slices
        self._size = slices.args.dense(GROUP_SIZE, len(slices), NO_NUMBER)
        elements = [
            slices.args.dense(key, len(slices), NO_NUMBER) for key in (IN_ELEMENTS, OUT_ELEMENTS)
        ]
        self._elements = np.maximum(*elements)
        self._pair = [
            slices.args.dense(key, len(slices), NO_NUMBER)
            for key in (SOURCE_RANK, DESTINATION_RANK)
        ]
        is_module = slices.kind == SliceKind.MODULE
        self._module = nearest(slices.parent, is_module) if is_module.any() else None
        self._groups = {
            str(config.get("pg_name", "")): config for config in _group_config(trace.info.user)
        }
        self._pairs: dict[int, dict[str, Any]] = {}

    def kinds(self, row: Int64, host: Int64) -> tuple[tuple[Kind, ...], NDArray[np.int32]]:
        """Return the kinds of some collectives, each called by a slice of ``host``."""
        if not len(row):
            return (), np.zeros(0, np.int32)
        slices = self._trace.slices
        has_host = host >= 0
        caller = np.where(has_host, host, row)
        rest = slices.args.rest if len(slices.args.rest) else np.zeros(len(slices), np.uint32)
        of = np.where((self._elements[row] == NO_NUMBER) & has_host, caller, row)
        module = np.full(len(row), NO_SLICE, np.int64)
        if self._module is not None:
            module = np.where(has_host, self._module[caller], NO_SLICE)
        name = slices.name.astype(np.int64)
        keys = [
            name[row], rest[row].astype(np.int64), np.where(has_host, rest[caller], 0),
            self._elements[of], self._size[of], self._pair[0][of], self._pair[1][of],
            np.where(module == NO_SLICE, NO_SLICE, name[module]), name[caller],
        ]  # fmt: skip
        first, which = distinct_rows(keys)
        codes: dict[Kind, int] = {}
        distinct_keys = np.stack([column[first].astype(np.int64) for column in keys], axis=1)
        code = [codes.setdefault(self._read(key), len(codes)) for key in distinct_keys.tolist()]
        return tuple(codes), np.array(code, np.int32)[which]

    def _read(self, key: list[int]) -> Kind:
        name_id, fragment, above, elements, size, source, target, module, caller = key
        pairs = {**self._fragment(above), **self._fragment(fragment)}
        name = pairs.get(COLLECTIVE)
        if not isinstance(name, str):
            called = self._trace.strings[caller]
            kernel = self._trace.strings[name_id]
            name = called if BACKEND_COLLECTIVE.search(called) else collective_of_kernel(kernel)
        dtype, group = str(pairs.get(DTYPE, "")), str(pairs.get(GROUP_NAME, ""))
        named = pairs.get(MODULE)
        if elements == NO_NUMBER:
            elements, dtype = _input_size(pairs)
        width = element_bytes(dtype)
        plain = plain_collective(name)
        is_pair = _POINT_TO_POINT.search(plain) is not None
        members = _ranks(pairs.get(GROUP_RANKS)) or _ranks(self._groups.get(group, {}).get("ranks"))
        return Kind(
            name=plain,
            group=group,
            members=members,
            group_size=size if size != NO_NUMBER else len(members) or NO_NUMBER,
            dtype=dtype,
            bytes=elements * width if elements != NO_NUMBER and width else NO_NUMBER,
            module=named
            if isinstance(named, str)
            else "" if module == NO_SLICE else self._trace.strings[module],
            pair=(source, target) if is_pair else (NO_NUMBER, NO_NUMBER),
        )  # fmt: skip

    def _fragment(self, text_id: int) -> dict[str, Any]:
        if text_id not in self._pairs:
            self._pairs[text_id] = pairs_of(self._trace.strings[text_id]) if text_id else {}
        return self._pairs[text_id]


def _group_config(user: Any) -> list[dict[str, Any]]:
    distributed = user.get("distributedInfo")
    groups = distributed.get("pg_config") if isinstance(distributed, dict) else None
    return (
        [group for group in groups if isinstance(group, dict)] if isinstance(groups, list) else []
    )


def _input_size(pairs: dict[str, Any]) -> tuple[int, str]:
    """Return the element count and type of a call's first recorded tensor."""
    dims, types = pairs.get(INPUT_DIMS), pairs.get(INPUT_TYPES)
    if isinstance(dims, list) and isinstance(types, list):
        for shape, dtype in zip(dims, types, strict=False):
            if not isinstance(shape, list) or not shape or not isinstance(dtype, str):
                continue
            if dtype and all(type(length) is int for length in shape):
                return math.prod(shape), dtype.removeprefix("c10::")
    return NO_NUMBER, ""


def _ranks(ranks: Any) -> tuple[int, ...]:
    """Return the ranks in a list, or in the text of one; none if it is cut off."""
    if isinstance(ranks, str):
        if not re.fullmatch(r"\s*\[[\d,\s]*\]\s*", ranks):
            return ()
        ranks = [int(rank) for rank in re.findall(r"\d+", ranks)]
    if isinstance(ranks, list) and all(type(rank) is int for rank in ranks):
        return tuple(sorted(ranks))
    return ()
