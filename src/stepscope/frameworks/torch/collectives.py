"""Records collectives of torch.distributed: their group, number, sizes and types.

Each one is an operator of torch's, ``c10d::allreduce_``, and on the CPU a range of the backend's
own thread, ``gloo:all_reduce``, which ends when the work is done. Both are recorded without their
inputs. The missing facts are noted where Python calls a process group, and read from the flight
recorder for calls that C++ makes; they are added to the slices when the recording ends.
"""

from __future__ import annotations

import functools
import pickle
import sys
from contextlib import suppress
from math import prod
from threading import get_native_id
from typing import TYPE_CHECKING, Any

from stepscope import _native
from stepscope._native import begin_slice, end_slice, now_ns
from stepscope.frameworks.torch import shards
from stepscope.frameworks.torch.options import COLLECTIVE_WAITS
from stepscope.frameworks.torch.process_groups import Membership
from stepscope.record.collective_notes import CollectiveNotes, note_tensors
from stepscope.record.collectives import Collective, number_calls, take_notes
from stepscope.record.patching import Patches, PatchesWhenImported
from stepscope.record.phase_ranges import RANGE_KIND
from stepscope.record.source import Source
from stepscope.trace.names import plain_collective

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from stepscope.record.collective_account import CollectiveAccount
    from stepscope.trace.schema import Captured

_TOLERANCE_NS = 200_000  # between the recorder's Unix time and our clock
_DUMPS = ("_dump_fr_trace", "_dump_nccl_trace")


def recorded_flights() -> list[Collective]:
    """Return the collectives that the flight recorder still has, in the order of their calls."""
    c10d: Any = sys.modules.get("torch._C._distributed_c10d")
    for name in _DUMPS:
        dump = getattr(c10d, name, None)
        if dump is None:
            continue
        with suppress(Exception):  # it is off or has another format
            entries = pickle.loads(dump(True, False, False))["entries"]  # torch's own, in memory
            flights = [flight for entry in entries if (flight := _flight(entry)) is not None]
            if flights:
                return sorted(flights, key=lambda flight: flight.start_ns)
    return []


def _flight(entry: dict[str, Any]) -> Collective | None:
    _, _, title = str(entry["profiling_name"]).partition(":")
    start_ns = int(entry["time_created_ns"]) - _native.wall_offset_ns()
    is_p2p = bool(entry.get("is_p2p"))
    dtypes = entry["input_dtypes"] or entry["output_dtypes"] or [None]
    has_sizes = bool(entry["input_sizes"] or entry["output_sizes"])
    return Collective(
        plain_collective(title),
        start_ns,
        start_ns,
        thread="",
        group=str(entry["process_group"][0]),
        number=None if is_p2p else int(entry["collective_seq_id"]),
        elements_in=_elements(entry["input_sizes"]) if has_sizes else None,
        elements_out=_elements(entry["output_sizes"]) if has_sizes else None,
        dtype=dtypes[0],
    )


def _elements(sizes: Iterable[Sequence[int]]) -> int:
    return sum(prod(size) for size in sizes)


def complete_calls(calls: Sequence[Collective], flights: Sequence[Collective]) -> None:
    """Complete the calls of a recording, in order, with what the flight recorder knows."""
    by_number = {
        (flight.group, flight.number): flight for flight in flights if flight.number is not None
    }
    at = 0
    for call in calls:
        exact = by_number.get((call.group, call.number)) if call.number is not None else None
        if exact is not None:
            call.take(exact)
            continue
        while at < len(flights) and flights[at].start_ns < call.start_ns - _TOLERANCE_NS:
            at += 1
        for flight in flights[at : at + 8]:
            if flight.start_ns > call.end_ns + _TOLERANCE_NS:
                break
            is_alike = plain_collective(flight.name) == plain_collective(call.name)
            if is_alike and not _is_taken(flight):
                call.take(flight)
                flight.end_ns = -1
                break


def _is_taken(flight: Collective) -> bool:
    return flight.end_ns < 0


_C10D = "torch._C._distributed_c10d"
_CALL, _WORK = "c10d::", "gloo:"
# Operators of the same library that no rank waits for.
_NO_COLLECTIVES = ("functional", "c10d::work", "c10d::monitored")


class TorchCollectives(CollectiveNotes):
    """Completes the collectives that other sources record; records nothing itself."""

    name = "torch.distributed"

    def __init__(self, account: CollectiveAccount) -> None:
        super().__init__({"torch.distributed": _patches, **shards.PATCHES}, account)
        self._membership = Membership()
        self._buckets = shards.Buckets(account.keep_buckets)

    @classmethod
    def with_account(cls, account: CollectiveAccount) -> TorchCollectives:
        return cls(account)

    def stop(self) -> None:
        super().stop()
        if self._membership.info:
            self.account.keep_flights(recorded_flights())

    def look(self) -> None:
        """Learn groups and buckets while they exist."""
        self._membership.look()
        self.account.learn(self._membership.groups, self._membership.rank)
        if self._membership.info:
            self._buckets.look()

    def job(self) -> Mapping[str, Any]:
        return self._membership.described()

    @classmethod
    def completed(cls, captured: Captured, account: CollectiveAccount) -> Captured:
        if account.rank is None:
            return captured
        from stepscope.record.collective_columns import annotated, calls_named

        calls = calls_named(captured, _kineto_name)
        take_notes(calls, account.calls)
        complete_calls(calls, account.flights)
        _guess_groups(calls, account)
        number_calls(calls)
        shards.name_modules(calls, account.buckets)
        _add_works(captured, calls)
        groups, rank = account.groups, account.rank
        pairs = {row: call.pairs(groups, rank) for call in calls for row in call.rows}
        return annotated(captured, pairs)

    def describe(self) -> str:
        if not self._membership.info:
            return ""
        count = len(self.account.groups)
        return f"collectives of {count} process group{'s' * (count != 1)}"


def _guess_groups(calls: Sequence[Collective], account: CollectiveAccount) -> None:
    """Assign calls of C++ without a known group to the group that C++ uses most."""
    used = [flight.group for flight in account.flights if flight.group in account.groups]
    groups = used or list(account.groups)
    if not groups:
        return
    usual = max(dict.fromkeys(groups), key=groups.count)
    for call in calls:
        call.group = call.group or usual


def _kineto_name(operator: str) -> str | None:
    """Return Kineto's name of a collective, ``allreduce``; None for any other operator."""
    if not operator.startswith(_CALL) or any(word in operator for word in _NO_COLLECTIVES):
        return None
    name = operator.removeprefix(_CALL).removesuffix("_")
    return {"alltoall": "all_to_all", "recv_any_source": "recv"}.get(name, name)


def _add_works(captured: Captured, calls: Sequence[Collective]) -> None:
    """Add to each call the range in which the backend did its work.

    A group has its own threads, which execute its work in the order of the calls.
    """
    slices, texts = captured.slices, captured.strings.decode_all()
    from stepscope.record.collective_columns import rows_named

    works = rows_named(captured, {i for i, text in enumerate(texts) if text.startswith(_WORK)})
    waiting: dict[str, list[Collective]] = {}
    for call in calls:
        waiting.setdefault(plain_collective(call.name), []).append(call)
    group_of: dict[int, str | None] = {}
    for row in works:
        start_ns, track = int(slices.start_ns[row]), int(slices.track[row])
        mine = waiting.get(plain_collective(texts[int(slices.name[row])]), [])
        for i, call in enumerate(mine):
            if call.start_ns > start_ns:
                break
            if group_of.get(track, call.group) == call.group:
                call.rows.append(row)
                if captured.tracks[track].tid != call.thread:  # otherwise many groups may share it
                    group_of[track] = call.group
                del mine[i]
                break


# ---- torch


def _patch(patches: Patches) -> None:
    c10d: Any = sys.modules.get(_C10D)
    dist: Any = sys.modules["torch.distributed"]
    if c10d is None or not dist.is_available():
        return
    for name in METHODS:
        if hasattr(c10d.ProcessGroup, name):
            patches.wrap(c10d.ProcessGroup, name, functools.partial(_noting, name))
    for owner in (dist, dist.distributed_c10d):
        patches.wrap(owner, "destroy_process_group", TorchCollectives.looking_first)


def _noting(name: str, plain: Callable[..., Any]) -> Callable[..., Any]:
    def call(group: Any, *args: Any, **kwargs: Any) -> Any:
        if not TorchCollectives.watching:
            return plain(group, *args, **kwargs)
        start_ns = now_ns()
        work = plain(group, *args, **kwargs)
        end_ns = now_ns()
        try:
            note = Collective(name, start_ns, end_ns, str(get_native_id()))
            _fill(note, group, args, kwargs)
            note.module = shards.current_module()
            TorchCollectives.note_in_all(note)
        except Exception:  # the note is lost, but the program gets its result
            pass
        return work

    return functools.wraps(plain)(call)


_patches = Patches(_patch)


# ---- what the arguments of a call say

# Which of the first two arguments are output and input; None: one is both, or there is none.
_SAME: tuple[int | None, int | None] = (0, 0)
_OUT_IN: tuple[int | None, int | None] = (0, 1)
METHODS: Mapping[str, tuple[int | None, int | None]] = {
    **dict.fromkeys(("allreduce", "allreduce_coalesced", "broadcast", "reduce"), _SAME),
    **dict.fromkeys(("allgather", "_allgather_base", "allgather_coalesced"), _OUT_IN),
    **dict.fromkeys(("reduce_scatter", "_reduce_scatter_base"), _OUT_IN),
    "allgather_into_tensor_coalesced": _OUT_IN,
    "reduce_scatter_tensor_coalesced": _OUT_IN,
    **dict.fromkeys(("all_gather_single", "all_gather_single_coalesced"), _OUT_IN),
    **dict.fromkeys(("reduce_scatter_single", "reduce_scatter_single_coalesced"), _OUT_IN),
    **dict.fromkeys(("alltoall", "alltoall_base", "all_to_all_single"), _OUT_IN),
    **dict.fromkeys(("gather", "scatter"), _OUT_IN),
    "send": (None, 0),
    "recv": (0, None),
    "recv_anysource": (0, None),
    "barrier": (None, None),
}  # fmt: skip
_ROOT_IS_SOURCE = {"broadcast": True, "scatter": True, "reduce": False, "gather": False}


def _fill(note: Collective, group: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> None:
    """Fill in a note about a call that has returned."""
    note.group = str(group.group_name)
    if not note.is_point_to_point:
        note.number = int(group._get_sequence_number_for_group()) or None
    out, taken = METHODS[note.name]
    note_tensors(note, args, out, taken)
    options = kwargs.get("opts", args[-1] if args else None)
    is_async = getattr(options, "asyncOp", None)
    note.is_async = is_async if isinstance(is_async, bool) else None
    _note_ends(note, group, args, options)


def _note_ends(note: Collective, group: Any, args: Sequence[Any], options: Any) -> None:
    """Note the ranks that send and receive, as global ranks."""
    if note.is_point_to_point:
        mine, other = group.rank(), args[1] if len(args) > 1 else None
        peer = other if isinstance(other, int) and note.name != "recv_anysource" else None
        ends = (mine, peer) if note.name == "send" else (peer, mine)
        note.source, note.destination = (_global_rank(group, rank) for rank in ends)
    elif note.name in _ROOT_IS_SOURCE:
        root = getattr(options, "rootRank", None)
        if isinstance(root, int):
            end = _global_rank(group, root)
            if _ROOT_IS_SOURCE[note.name]:
                note.source = end
            else:
                note.destination = end


def _global_rank(group: Any, rank: int | None) -> int | None:
    import torch.distributed as dist

    return None if rank is None else int(dist.get_global_rank(group, rank))


# ---- waits: without a range, they look like waits for a lock


class TorchCollectiveWaits(Source):
    """Makes a range for each ``Work.wait`` that Python calls, also of synchronous collectives."""

    name = "waits of torch.distributed"
    when = COLLECTIVE_WAITS

    def __init__(self) -> None:
        self._patches = PatchesWhenImported("torch.distributed", _wait_patches)

    def start(self) -> None:
        self._patches.start()

    def stop(self) -> None:
        self._patches.stop()


def _patch_waits(patches: Patches) -> None:
    c10d: Any = sys.modules.get("torch._C._distributed_c10d")
    if c10d is not None:
        patches.wrap(c10d.Work, "wait", _waiting)


def _waiting(plain: Callable[..., Any]) -> Callable[..., Any]:
    def wait(*args: Any, **kwargs: Any) -> Any:
        if not _wait_patches.in_use:
            return plain(*args, **kwargs)
        handle = begin_slice(RANGE_KIND, "c10d:wait", "")
        try:
            return plain(*args, **kwargs)
        finally:
            end_slice(handle)

    return functools.wraps(plain)(wait)


_wait_patches = Patches(_patch_waits)
