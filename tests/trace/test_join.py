"""Several cycles as one trace."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from recording import parents, ranges_recorded, trace_of
from stepscope import record_function
from stepscope.analysis.base.tree import call_tree
from stepscope.formats.chrome.flows import forward_backward_links
from stepscope.trace.build import build
from stepscope.trace.join import join_traces
from stepscope.trace.model import (
    PRODUCER,
    Args,
    Losses,
    Memory,
    MemoryOwner,
    Owners,
    Stacks,
    Trace,
    TraceInfo,
    Track,
)
from stepscope.trace.schema import Captured, Slices
from stepscope.trace.strings import Strings

if TYPE_CHECKING:
    from collections.abc import Sequence

HERE = TraceInfo(PRODUCER, host="here", pid=10, wall_offset_ns=1_000)


def made(
    rows: Sequence[tuple[str, int, int]], *, info: TraceInfo = HERE, category: str = "cpu_op"
) -> Trace:
    """Return a trace of one thread; each row is a name, its start and its duration in ns."""
    texts = list(dict.fromkeys(["", category, *(name for name, _, _ in rows)]))
    numbers = np.array([row[1:] for row in rows], np.int64).reshape(-1, 2)
    raw = Slices.of(
        category=np.full(len(rows), 1, np.uint32),
        name=np.array([texts.index(name) for name, _, _ in rows], np.uint32),
        start_ns=numbers[:, 0],
        duration_ns=numbers[:, 1],
        track=np.zeros(len(rows), np.uint32),
    )
    track = Track(str(info.pid), str(info.pid), thread_name="main")
    return build(Captured(raw, (track,), Strings.of(texts)), info)


def seen(trace: Trace) -> list[tuple[str, int, str]]:
    """Return the name, start and process of each slice, in order."""
    return [
        (trace.name_of(i), int(start), trace.tracks[trace.slices.track[i]].pid)
        for i, start in enumerate(trace.slices.start_ns)
    ]


def with_ids(trace: Trace, **columns: int) -> Trace:
    """Give every slice the same number in each of some columns."""
    filled = {key: np.full(len(trace), value, np.int64) for key, value in columns.items()}
    return replace(trace, slices=replace(trace.slices, **filled))


def test_one_trace_is_itself_and_none_is_an_error() -> None:
    trace = made([("a", 0, 1)])
    assert join_traces([trace]) is trace
    with pytest.raises(ValueError, match="no traces"):
        join_traces([])


def test_cycles_of_one_process_share_its_thread_in_the_order_of_time() -> None:
    joined = join_traces([made([("late", 50, 9), ("in", 51, 2)]), made([("early", 0, 9)])])
    assert seen(joined) == [("early", 0, "10"), ("late", 50, "10"), ("in", 51, "10")]
    assert len(joined.tracks) == 1
    assert parents(joined) == [("early", None), ("late", None), ("in", "late")]
    assert joined.slices.self_ns.tolist() == [9, 7, 2]
    assert joined.slices.depth.tolist() == [0, 0, 1]


def test_many_cycles_are_many_pairwise_joins() -> None:
    cycles = [made([(f"s{i}", 10 * i, 5), ("op", 10 * i + 1, 2)]) for i in range(5)]
    at_once = join_traces(cycles)
    one_by_one = cycles[0]
    for cycle in cycles[1:]:
        one_by_one = join_traces([one_by_one, cycle])
    assert seen(at_once) == seen(one_by_one)
    assert parents(at_once) == parents(one_by_one)


def test_cycles_share_a_clock_even_if_the_time_of_day_was_set_between_them() -> None:
    later = replace(HERE, wall_offset_ns=HERE.wall_offset_ns + 3_600_000_000_000)
    joined = join_traces([made([("a", 0, 1)]), made([("b", 5, 1)], info=later)])
    assert joined.slices.start_ns.tolist() == [0, 5]


def test_processes_keep_their_own_threads() -> None:
    joined = join_traces([made([("a", 0, 9)]), made([("b", 1, 2)], info=replace(HERE, pid=11))])
    assert seen(joined) == [("a", 0, "10"), ("b", 1, "11")]
    assert parents(joined) == [("a", None), ("b", None)]


def test_numbers_that_tie_events_do_so_from_cycle_to_cycle() -> None:
    tracks = (Track("10", "10", logical_id=1),)
    forward = with_ids(made([("mm", 0, 1)]), sequence=5)
    backward = with_ids(made([("MmBackward", 9, 1)]), sequence=5, forward_thread=1)
    forward, backward = replace(forward, tracks=tracks), replace(backward, tracks=tracks)
    links = forward_backward_links(join_traces([forward, backward]))
    assert [rows.tolist() for rows in links] == [[0], [1]]


def test_arguments_stay_with_their_slices() -> None:
    def with_rest(trace: Trace, fragment: str) -> Trace:
        strings = Strings.of([*trace.strings, fragment])
        rest = np.array([len(strings) - 1] + [0] * (len(trace) - 1), np.uint32)
        return replace(trace, strings=strings, slices=replace(trace.slices, args=Args(rest=rest)))

    late = with_rest(made([("late", 9, 1), ("later", 11, 1)]), '"k": "it\'s </script> 🚀"')
    joined = join_traces([late, made([("early", 0, 1)])])
    pairs = [joined.slices.args.of_row(row, joined.strings) for row in range(3)]
    assert pairs == [{}, {"k": "it's </script> 🚀"}, {}]


def memory_of(trace: Trace, time_ns: int, row: int) -> Trace:
    """Give a trace one allocation in one slice, and say what it is."""
    strings = Strings.of([*trace.strings, "cpu"])
    one: Any = lambda value, dtype: np.array([value], dtype)  # noqa: E731
    memory = Memory(
        one(time_ns, np.int64),
        one(0x10, np.int64),
        one(64, np.int64),
        one(len(strings) - 1, np.uint32),
        one(0, np.uint32),
        one(row, np.int32),
        one(64, np.int64),
        one(0, np.int64),
    )
    owners = Owners(
        one(time_ns, np.int64),
        one(0x10, np.int64),
        one(64, np.int64),
        one(len(strings) - 1, np.uint32),
        one(MemoryOwner.INPUT, np.uint8),
    )
    return replace(trace, strings=strings, memory=memory, owners=owners)


def test_memory_stays_with_its_slice_in_the_order_of_time() -> None:
    late = memory_of(made([("late", 50, 9)]), 52, 0)
    early = memory_of(made([("a", 0, 9), ("b", 20, 9)]), 21, 1)
    nowhere = memory_of(made([("c", 30, 1)]), 35, -1)
    joined = join_traces([late, early, nowhere])
    assert joined.memory.time_ns.tolist() == [21, 35, 52]
    names = [joined.name_of(row) if row >= 0 else None for row in joined.memory.slice]
    assert names == ["b", None, "late"]
    assert {joined.strings[int(device)] for device in joined.memory.device} == {"cpu"}
    assert joined.owners.time_ns.tolist() == [21, 35, 52]
    assert {joined.strings[int(device)] for device in joined.owners.device} == {"cpu"}


def test_equal_stacks_are_one() -> None:
    def with_stack(trace: Trace, *frames: str) -> Trace:
        strings = Strings.of([*trace.strings, *frames])
        ids = range(len(strings) - len(frames), len(strings))
        stacks = Stacks(
            np.arange(-1, len(frames)).clip(0).astype(np.uint32), np.array([0, *ids], np.uint32)
        )
        stack = np.full(len(trace), len(frames), np.uint32)
        return replace(
            trace, strings=strings, stacks=stacks, slices=replace(trace.slices, stack=stack)
        )

    joined = join_traces(
        [
            with_stack(made([("a", 0, 1)]), "m.py(1): <module>", "m.py(2): f"),
            with_stack(made([("b", 5, 1)]), "m.py(1): <module>", "m.py(2): f"),
            with_stack(made([("c", 9, 1)]), "m.py(1): <module>", "m.py(3): g"),
        ]
    )
    assert len(joined.stacks) == 4
    frames = [
        [joined.strings[f] for f in joined.stacks.frames(int(s))] for s in joined.slices.stack
    ]
    assert frames == [
        ["m.py(2): f", "m.py(1): <module>"],
        ["m.py(2): f", "m.py(1): <module>"],
        ["m.py(3): g", "m.py(1): <module>"],
    ]


def test_what_is_said_of_the_whole() -> None:
    first = replace(
        HERE,
        start_ns=5,
        end_ns=9,
        losses=Losses(3, "newest", 99),
        anomalies={"odd": 1},
        user={"k": 1},
        versions={"python": "3"},
    )
    second = replace(
        first, start_ns=1, end_ns=20, anomalies={"odd": 2, "more": 1}, user={"k": 2, "l": 3}
    )
    info = join_traces([made([("a", 5, 1)], info=first), made([("b", 6, 1)], info=second)]).info
    assert (info.start_ns, info.end_ns, info.losses) == (1, 20, Losses(6, "newest", 99))
    assert info.anomalies == {"odd": 3, "more": 1}
    assert info.user == {"k": 1, "l": 3}
    assert info.versions == {"python": "3"}


def test_recordings_join_and_can_be_analysed_and_saved(tmp_path: Any) -> None:
    recorded = []
    for name in "ab":
        with ranges_recorded() as session, record_function(name), record_function("inner"):
            pass
        recorded.append(trace_of(session))
    joined = join_traces(recorded)
    assert parents(joined) == [("a", None), ("inner", "a"), ("b", None), ("inner", "b")]
    assert len(call_tree(joined).parent) == 4
    joined.save(tmp_path / "joined.stepscope")
    assert seen(Trace.load(tmp_path / "joined.stepscope")) == seen(joined)


def test_an_empty_trace_adds_nothing() -> None:
    joined = join_traces([made([]), made([("a", 0, 1)]), made([])])
    assert seen(joined) == [("a", 0, "10")]
