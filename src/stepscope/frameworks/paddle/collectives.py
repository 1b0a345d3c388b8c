"""Records collectives of paddle.distributed as ranges with group, sizes and type.

Ranges begin where Python calls a process group. What DataParallel reduces in C++ during backward
has no range of its own. Gloo does its work within the call.
"""

from __future__ import annotations

import functools
import sys
from contextlib import suppress
from threading import get_native_id
from typing import TYPE_CHECKING, Any

from stepscope._native import begin_slice, end_slice, now_ns
from stepscope.record.collective_notes import CollectiveNotes, note_tensors
from stepscope.record.collectives import Collective, Group, number_calls, take_notes
from stepscope.record.patching import Patches
from stepscope.record.phase_ranges import RANGE_KIND

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from stepscope.record.collective_account import CollectiveAccount
    from stepscope.trace.schema import Captured

# By method of Paddle's process group: Kineto's name, and which arguments are output and input.
_METHODS: Mapping[str, tuple[str, int | None, int | None]] = {
    "all_reduce": ("allreduce", 0, 0),
    "allreduce": ("allreduce", 0, 0),
    "broadcast": ("broadcast", 0, 0),
    "reduce": ("reduce", 0, 0),
    "all_gather": ("allgather", 0, 1),
    "all_gather_into_tensor": ("_allgather_base", 0, 1),
    "reduce_scatter": ("reduce_scatter", 0, 1),
    "reduce_scatter_tensor": ("_reduce_scatter_base", 0, 1),
    "all_to_all": ("all_to_all", 0, 1),
    "all_to_all_tensor": ("all_to_all", 0, 1),
    "all_to_all_single": ("all_to_all", 0, 1),
    "alltoall": ("all_to_all", 0, 1),
    "alltoall_single": ("all_to_all", 0, 1),
    "gather": ("gather", 1, 0),
    "scatter": ("scatter", 0, 1),
    "scatter_tensor": ("scatter", 0, 1),
    "send": ("send", None, 0),
    "recv": ("recv", 0, None),
    "barrier": ("barrier", None, None),
}
_ON_CALC_STREAM = "_on_calc_stream"


class PaddleCollectives(CollectiveNotes):
    name = "paddle.distributed"

    def __init__(self, account: CollectiveAccount) -> None:
        super().__init__({"paddle.distributed": _patches}, account)
        self._info: dict[str, Any] = {}

    @classmethod
    def with_account(cls, account: CollectiveAccount) -> PaddleCollectives:
        return cls(account)

    def look(self) -> None:
        with suppress(Exception):  # a missing description must not break the program
            groups = _groups_now()
            if groups:
                self._info = _place()
                self.account.learn(groups, self._info["rank"])

    def job(self) -> Mapping[str, Any]:
        if not self._info:
            return {}
        groups = [group.to_torch() for group in self.account.groups.values()]
        return {**self._info, "pg_count": len(groups), "pg_config": groups}

    @classmethod
    def completed(cls, captured: Captured, account: CollectiveAccount) -> Captured:
        if not account.calls:
            return captured
        from stepscope.record.collective_columns import annotated, calls_named

        calls = calls_named(captured, _collective_of)
        take_notes(calls, account.calls)
        calls = [call for call in calls if call.group is not None]
        number_calls(calls)
        groups, rank = account.groups, account.rank
        pairs = {row: call.pairs(groups, rank) for call in calls for row in call.rows}
        return annotated(captured, pairs)

    def describe(self) -> str:
        count = len(self.account.groups)
        return f"collectives, {count} group(s)" if count else ""


def _collective_of(name: str) -> str | None:
    """Return Kineto's name of the collective that one of our ranges is about."""
    backend, _, method = name.partition(":")
    return _METHODS[method][0] if backend.islower() and method in _METHODS else None


def _groups_now() -> dict[str, Group]:
    manager: Any = sys.modules["paddle.distributed.communication.group"]._GroupManager
    return {
        str(number): Group(
            str(number), tuple(group.ranks), str(group.name or ""), str(group.backend).lower()
        )
        for number, group in dict(manager.group_map_by_id).items()
        if group.process_group is not None
    }


def _place() -> dict[str, Any]:
    dist: Any = sys.modules["paddle.distributed"]
    groups = _groups_now()
    first = next(iter(groups.values()))
    return {
        "backend": first.backend,
        "rank": int(dist.get_rank()),
        "world_size": int(dist.get_world_size()),
    }


def _group_name(process_group: Any) -> str | None:
    manager: Any = sys.modules["paddle.distributed.communication.group"]._GroupManager
    for number, group in dict(manager.group_map_by_id).items():
        if group.process_group is process_group:
            return str(number)
    return None


# ---- paddle


def _patch(patches: Patches) -> None:
    core: Any = sys.modules["paddle.base.core"]
    for name in _METHODS:
        for method in (name, name + _ON_CALC_STREAM):
            if hasattr(core.ProcessGroup, method):
                patches.wrap(core.ProcessGroup, method, functools.partial(_noting, name))
    for place in ("paddle.distributed", "paddle.distributed.communication.group"):
        patches.wrap(sys.modules[place], "destroy_process_group", PaddleCollectives.looking_first)


def _noting(name: str, plain: Callable[..., Any]) -> Callable[..., Any]:
    def call(group: Any, *args: Any, **kwargs: Any) -> Any:
        if not PaddleCollectives.watching:
            return plain(group, *args, **kwargs)
        start_ns = now_ns()
        handle = begin_slice(RANGE_KIND, f"{str(group.name()).lower()}:{name}", "")
        try:
            return plain(group, *args, **kwargs)
        finally:
            end_slice(handle)
            with suppress(Exception):  # this note is dropped
                note = Collective(_METHODS[name][0], start_ns, now_ns(), str(get_native_id()))
                _fill(note, name, group, args)
                PaddleCollectives.note_in_all(note)

    return functools.wraps(plain)(call)


def _fill(note: Collective, method: str, group: Any, args: Sequence[Any]) -> None:
    note.group = _group_name(group)
    _, out, taken = _METHODS[method]
    note_tensors(note, args, out, taken)
    if note.is_point_to_point and len(args) > 1 and isinstance(args[1], int):
        mine, peer = int(group.rank()), args[1]
        note.source, note.destination = (mine, peer) if note.name == "send" else (peer, mine)


_patches = Patches(_patch)
