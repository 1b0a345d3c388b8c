"""Memory by event: who allocated and freed how much, itself and with all it called."""

from __future__ import annotations

import pickle
from typing import TYPE_CHECKING

import pytest

from made_trace import Bytes, Call, trace_of_calls
from stepscope.frameworks.torch.dialect.event_lists import EventList

if TYPE_CHECKING:
    from collections.abc import Sequence

CALLS = (
    Call("outer", 0, 100),
    Call("inner", 10, 60),
    Call("leaf", 20, 30),
    Call("other", 0, 200, track=1),
)
MEMORY = (
    Bytes(5, 100),
    Bytes(25, 4096),
    Bytes(28, -1024),
    Bytes(70, -100),
    Bytes(150, -3072),  # freed by Python, after the operators
    Bytes(26, 7, track=1),
    Bytes(300, 50, track=1),
)


def events(
    calls: Sequence[Call] = CALLS, memory: Sequence[Bytes] = MEMORY, **options: bool
) -> EventList:
    return EventList(trace_of_calls(calls, memory), **options)


def by_name(listed: EventList) -> dict[str, tuple[int, int]]:
    return {e.name: (e.cpu_memory_usage, e.self_cpu_memory_usage) for e in listed}


def test_bytes_belong_to_the_innermost_operator_of_their_thread() -> None:
    assert by_name(events()) == {
        "outer": (3072, 0),
        "inner": (3072, 0),
        "leaf": (3072, 3072),
        "other": (7, 7),
        "[memory]": (50, 50),
    }


def test_what_no_event_covers_becomes_events_of_its_own_in_their_time() -> None:
    listed = events()
    assert [e.name for e in listed] == [
        "other", "outer", "inner", "leaf", "[memory]", "[memory]",
    ]  # fmt: skip
    freed, late = listed[4], listed[5]
    assert (freed.cpu_memory_usage, freed.thread, freed.time_range.start) == (-3072, 1, 150)
    assert (late.cpu_memory_usage, late.thread, late.cpu_time_total) == (50, 2, 0)
    assert freed.cpu_parent is None
    assert len({e.id for e in listed}) == 6
    assert [child.name for child in listed[1].cpu_children] == ["inner"]
    assert listed[3].cpu_parent == listed[2]


def test_averages_hold_all_bytes_and_none_twice() -> None:
    averages = events().key_averages()
    leftovers = averages[4]
    assert (leftovers.key, leftovers.count, leftovers.cpu_memory_usage) == ("[memory]", 2, -3022)
    assert sum(a.self_cpu_memory_usage for a in averages) == sum(m.size for m in MEMORY)
    assert averages.total_average().self_cpu_memory_usage == sum(m.size for m in MEMORY)


def test_bytes_of_hidden_slices_are_their_parents() -> None:
    calls = [Call("a", 0, 100), Call("aten::is_leaf", 10, 90), Call("b", 20, 50)]
    assert by_name(events(calls, [Bytes(15, 8), Bytes(30, 4)])) == {"a": (12, 8), "b": (4, 4)}


def test_bytes_on_a_device_are_counted_apart() -> None:
    listed = events([Call("op", 0, 100)], [Bytes(5, 100), Bytes(6, 512, device="cuda:0")])
    (op,) = listed
    assert (op.cpu_memory_usage, op.device_memory_usage) == (100, 512)
    assert op.self_device_memory_usage == 512
    with pytest.warns(FutureWarning, match="device_memory_usage"):
        assert op.cuda_memory_usage == 512


def test_the_table_has_memory_columns_when_memory_was_recorded() -> None:
    lines = events().key_averages().table(sort_by="self_cpu_memory_usage").splitlines()
    assert lines[1].endswith("CPU time avg       CPU Mem  Self CPU Mem    # of Calls  ")
    assert [line.split()[0] for line in lines[3:8]] == [
        "leaf", "other", "outer", "inner", "[memory]",
    ]  # fmt: skip
    assert lines[3].endswith("       3.00 KB       3.00 KB             1  ")
    assert lines[7].endswith("      -2.95 KB      -2.95 KB             2  ")
    assert "Mem" not in events(memory=()).key_averages().table()


def test_device_memory_has_columns_only_where_some_was_allocated() -> None:
    kernel = Call("kernel", 20, 30, category="kernel", track=1)
    calls = [Call("op", 0, 100), kernel]
    with_device = events(calls, [Bytes(5, 1), Bytes(6, 512, device="cuda:0")]).table()
    assert "  Self CPU Mem      CUDA Mem  Self CUDA Mem    # of Calls  " in with_device
    assert "CUDA Mem" not in events(calls, [Bytes(5, 1)]).table()


def test_deep_nests_are_summed_up() -> None:
    calls = [Call(f"op {i}", i, 1000 - i) for i in range(400)]
    result = by_name(events(calls, [Bytes(450, 3), Bytes(10, 5)]))
    assert result["op 0"] == (8, 0)
    assert result["op 10"] == (8, 5)
    assert result["op 11"] == result["op 398"] == (3, 0)
    assert result["op 399"] == (3, 3)


def test_lists_with_memory_can_be_pickled() -> None:
    listed = events()
    copy = pickle.loads(pickle.dumps(listed))
    assert copy.table() == listed.table()
    assert pickle.loads(pickle.dumps(listed[4])).cpu_memory_usage == -3072
