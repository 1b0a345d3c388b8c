"""profile_memory: every allocation and release, with its thread and operator."""

from __future__ import annotations

import json
import os
import threading
from typing import TYPE_CHECKING, Any

import pytest

pytest.importorskip("torch")

import torch

from stepscope import profile
from torch_steps import MODELS, training_step

if TYPE_CHECKING:
    from pathlib import Path

    from stepscope.trace.model import Trace

KILOBYTE = torch.ones(256).nbytes


def changes(trace: Trace) -> list[tuple[str | None, int]]:
    """Return the operator and the bytes of every event."""
    memory = trace.memory
    return [
        (trace.name_of(int(row)) if row >= 0 else None, int(size))
        for row, size in zip(memory.slice, memory.size, strict=True)
    ]


def allocated_before() -> int:
    """Return the bytes that other tests' recordings have seen allocated, and not released."""
    with profile(profile_memory=True) as prof:
        torch.empty(256)
    return int(prof.trace.memory.allocated[-1])


def test_an_allocation_belongs_to_its_operator_and_a_release_gives_it_back() -> None:
    before = allocated_before()
    with profile(profile_memory=True) as prof:
        a = torch.empty(256)
        del a
    assert changes(prof.trace) == [("aten::empty", KILOBYTE), (None, -KILOBYTE)]
    memory = prof.trace.memory
    assert memory.address[0] == memory.address[1] != 0
    assert memory.allocated.tolist() == [before + KILOBYTE, before]
    assert prof.trace.strings[int(memory.device[0])] == "cpu"


def test_what_was_there_before_is_not_counted_when_it_goes() -> None:
    a = torch.empty(256)
    with profile(profile_memory=True) as prof:
        del a
    assert changes(prof.trace) == []


def test_a_block_that_was_sampled_too_is_given_back_after_the_recording() -> None:
    before = allocated_before()
    with profile(profile_memory=True, held_memory=True):
        remaining = [torch.empty(16 << 20, dtype=torch.uint8)]
    remaining.clear()
    assert allocated_before() == before


def test_without_profile_memory_nothing_is_kept() -> None:
    with profile() as prof:
        torch.empty(256)
    assert not len(prof.trace.memory)


def test_tensors_outlive_the_recording_that_saw_them_made() -> None:
    with profile(profile_memory=True):
        remaining = [torch.full((256,), float(i)) for i in range(50)]
    assert [float(tensor[0]) for tensor in remaining] == list(range(50))
    remaining[7].resize_(1024)
    assert float(remaining[7][0]) == 7.0
    with profile(profile_memory=True) as prof:
        remaining[8].resize_(1024)
        remaining.clear()
    # The block that was handed out between the two is unknown, and so is its release.
    sizes = [size for _, size in changes(prof.trace)]
    assert sizes == [4 * KILOBYTE, -KILOBYTE, *sizes[2:]]
    assert sorted(sizes[2:]) == [-4 * KILOBYTE, *[-KILOBYTE] * 48]


def test_every_thread_counts_for_itself() -> None:
    def work() -> None:
        for _ in range(20):
            torch.empty(256)

    before = allocated_before()
    with profile(profile_memory=True) as prof:
        threads = [threading.Thread(target=work) for _ in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    memory = prof.trace.memory
    assert len(memory) == 8 * 20 * 2
    assert int(memory.size.sum()) == 0
    assert int(memory.allocated[-1]) == before
    for track in set(memory.track.tolist()):
        assert (memory.track == track).sum() == 40
    for row, track in zip(memory.slice, memory.track, strict=True):
        assert row < 0 or prof.trace.slices.track[row] == track


@pytest.mark.parametrize("name", MODELS)
def test_operators_allocate_what_torch_says_on_one_thread(name: str) -> None:
    step = training_step(name)
    theirs = torch.profiler.profile(profile_memory=True)
    with theirs, profile(profile_memory=True) as ours:
        step()
    expected = {
        average.key: average.self_cpu_memory_usage
        for average in theirs.key_averages()
        if average.self_cpu_memory_usage
    }
    by_name: dict[str | None, int] = {}
    for operator, size in changes(ours.trace):
        by_name[operator] = by_name.get(operator, 0) + size
    del expected["[memory]"]
    by_name.pop(None, None)
    assert {key: size for key, size in by_name.items() if size} == expected


def test_a_child_process_goes_on_allocating_after_a_fork() -> None:
    with profile(profile_memory=True) as prof:
        child = os.fork()
        if child == 0:
            ok = float(torch.ones(1000).sum()) == 1000.0
            os._exit(0 if ok else 1)
        assert os.waitpid(child, 0)[1] == 0
        torch.empty(256)
    assert ("aten::empty", KILOBYTE) in changes(prof.trace)


def test_the_chrome_trace_has_torchs_memory_instants(tmp_path: Path) -> None:
    step = training_step("mlp")
    theirs = torch.profiler.profile(profile_memory=True)
    with theirs, profile(profile_memory=True) as ours:
        step()
    theirs.export_chrome_trace(str(tmp_path / "theirs.json"))
    ours.export_chrome_trace(tmp_path / "ours.json")

    def instants(name: str) -> list[dict[str, Any]]:
        events = json.loads((tmp_path / name).read_text())["traceEvents"]
        values = [event for event in events if event["name"] == "[memory]"]
        return sorted(values, key=lambda event: float(event["ts"]))

    expected, result = instants("theirs.json"), instants("ours.json")
    # torch tells of releases of what it had seen handed out in an earlier recording, too.
    ours_addresses = {event["args"]["Addr"] for event in result if event["args"]["Bytes"] > 0}
    expected = [event for event in expected if event["args"]["Addr"] in ours_addresses]
    for key in ("Addr", "Bytes", "Device Type", "Device Id"):
        assert [e["args"][key] for e in result] == [e["args"][key] for e in expected]
    assert {event["cat"] for event in result} == {event["cat"] for event in expected}
    assert {event["s"] for event in result} == {"t"}
