"""What is known of collectives is put together from several accounts, and written into slices."""

from __future__ import annotations

import numpy as np

from stepscope.frameworks.torch.collectives import complete_calls
from stepscope.record.collective_columns import annotated, calls_named
from stepscope.record.collectives import Collective, Group, number_calls, take_notes
from stepscope.trace.names import plain_collective
from stepscope.trace.schema import Captured, Slices, Track
from stepscope.trace.strings import Strings
from stepscope.trace.table import Args, IntColumn


def call(name: str, start: int, group: str | None = None, number: int | None = None) -> Collective:
    """Return a call of 10 ns."""
    return Collective(name, start, start + 10, "7", group=group, number=number)


def numbers_of(*calls: Collective) -> list[int | None]:
    """Return the numbers that the calls get."""
    number_calls(calls)
    return [item.number for item in calls]


def test_calls_are_numbered_by_those_that_have_a_number() -> None:
    between = [call("allreduce", i, "0", 7 if i == 2 else None) for i in range(4)]
    assert numbers_of(*between) == [5, 6, 7, 8]
    assert numbers_of(call("barrier", 0, "0"), call("barrier", 1, "1")) == [1, 1]
    assert numbers_of(call("barrier", 0)) == [None]
    to = [call("send", i, "0") for i in range(3)]
    to[0].destination = to[2].destination = 1
    assert numbers_of(*to) == [1, 1, 2]


def test_a_note_belongs_to_the_call_within_it_on_its_thread() -> None:
    calls = [call("allreduce", 100), call("allreduce", 200), call("allreduce", 300)]
    calls[2].thread = "8"
    notes = [Collective("allreduce", at - 5, at + 20, "7", group=str(at)) for at in (100, 300)]
    take_notes(calls, notes)
    assert [item.group for item in calls] == ["100", None, None]


def test_the_flight_recorder_knows_calls_by_number_and_by_time() -> None:
    calls = [call("allreduce", 10**9, "0", 4), call("broadcast", 2 * 10**9), call("barrier", 3)]
    expected = [call("allreduce", 5, "0", 4), call("broadcast", 2 * 10**9 + 3, "1", 9)]
    expected[0].dtype, expected[1].dtype = "Float", "Long"
    complete_calls(calls, expected)
    assert [(item.group, item.number, item.dtype) for item in calls] == [
        ("0", 4, "Float"),
        ("1", 9, "Long"),
        (None, None, None),
    ]


def test_the_names_of_one_collective_are_one() -> None:
    for names in (
        ("c10d::_allgather_base_", "gloo:_all_gather_base", "nccl:_all_gather_base", "allgather"),
        ("c10d::allreduce_coalesced_", "gloo:sparse_all_reduce", "allreduce"),
        ("c10d::recv_any_source_", "recv 0<-1", "gloo:recv"),
        ("alltoall_single", "gloo:all_to_allv", "c10d::alltoall_base_", "AllToAll"),
        ("c10d::barrier", "nccl:barrier"),
    ):
        assert len(set(map(plain_collective, names))) == 1


def test_arguments_are_added_to_those_that_are_there() -> None:
    texts = Strings.of(["", "c10d::allreduce_", "aten::mm", '"Sampled dims": [[2]]'])
    args = Args(
        {"Rank": IntColumn(np.array([1], np.uint32), np.array([9], np.int64))},
        np.array([3, 0], np.uint32),
    )
    slices = Slices.of(
        name=np.array([1, 2], np.uint32),
        start_ns=np.array([5, 6], np.int64),
        duration_ns=np.array([3, 1], np.int64),
        track=np.zeros(2, np.uint32),
        args=args,
    )
    captured = Captured(slices, (Track("1", "7"),), texts)
    (outcome,) = calls_named(captured, lambda text: "allreduce" if "allreduce" in text else None)
    assert (outcome.name, outcome.start_ns, outcome.end_ns, outcome.thread, outcome.rows) == (
        *("allreduce", 5, 8, "7"),
        [0],
    )
    outcome.group, outcome.number, outcome.is_async = "0", 3, True
    result = annotated(captured, {0: outcome.pairs({"0": Group("0", (4, 5))}, rank=4)})
    pairs = result.slices.args.of_row(0, result.strings)
    assert pairs == {
        "Sampled dims": [[2]],
        "Collective name": "allreduce",
        "Process Group Name": "0",
        "Process Group Description": "",
        "Process Group Ranks": "[4, 5]",
        "Group size": 2,
        "Rank": 4,
        "Seq": 3,
        "Is asynchronized op": 1,
    }
    assert result.slices.args.of_row(1, result.strings) == {"Rank": 9}
