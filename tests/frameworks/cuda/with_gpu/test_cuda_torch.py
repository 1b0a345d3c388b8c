"""What a CUDA device does under PyTorch, beside torch.profiler on the same program."""

from __future__ import annotations

import contextlib
import gzip
import json
import os
from collections import Counter, defaultdict
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

import stepscope
from stepscope import ProfilerActivity, profile, record_function
from stepscope.analysis.calls.launches import launched_work
from stepscope.record.running import RUNNING
from stepscope.trace.model import SliceKind

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from stepscope.trace.model import Trace

torch = pytest.importorskip("torch")

BOTH = [ProfilerActivity.CPU, ProfilerActivity.CUDA]
WORK = (SliceKind.KERNEL, SliceKind.MEMCPY, SliceKind.MEMSET)


def trained() -> Callable[[], None]:
    """Return a step of training: forward, backward, optimizer, a copy to the host."""
    torch.manual_seed(0)
    model = torch.nn.Sequential(
        torch.nn.Conv2d(3, 8, 3), torch.nn.ReLU(), torch.nn.Flatten(), torch.nn.Linear(8 * 900, 10)
    ).cuda()
    optimizer = torch.optim.Adam(model.parameters())
    inputs = torch.randn(16, 3, 32, 32)

    def step() -> None:
        optimizer.zero_grad()
        loss = model(inputs.cuda()).square().mean()
        loss.backward()
        optimizer.step()
        loss.item()

    for _ in range(3):
        step()
    torch.cuda.synchronize()
    return step


def recorded(work: Callable[[], object], **options: Any) -> profile:
    with profile(activities=BOTH, **options) as prof:
        work()
    return prof


def torch_json(work: Callable[[], object], path: Path) -> list[dict[str, Any]]:
    """Return the events of torch.profiler's own file of the same work."""
    cpu, cuda = torch.profiler.ProfilerActivity.CPU, torch.profiler.ProfilerActivity.CUDA
    with torch.profiler.profile(activities=[cpu, cuda]) as prof:
        work()
    prof.export_chrome_trace(str(path))
    events: list[dict[str, Any]] = json.loads(path.read_text())["traceEvents"]
    return events


def device_names(trace: Trace) -> Counter[str]:
    rows = np.flatnonzero(np.isin(trace.slices.kind, WORK))
    return Counter(trace.name_of(int(row)) for row in rows)


def operator_of_work(trace: Trace) -> Counter[tuple[str, str]]:
    """Return the name of each piece of device work with the operator around its launch."""
    slices = trace.slices
    pairs: Counter[tuple[str, str]] = Counter()
    for row, call in zip(*launched_work(trace), strict=True):
        at = slices.parent[call]
        while slices.kind[at] != SliceKind.OPERATOR:
            at = slices.parent[at]
        pairs[trace.name_of(int(row)), trace.name_of(int(at))] += 1
    return pairs


@pytest.fixture(scope="module")
def step() -> Callable[[], None]:
    return trained()


@pytest.fixture(scope="module")
def theirs(
    step: Callable[[], None], tmp_path_factory: pytest.TempPathFactory
) -> list[dict[str, Any]]:
    return torch_json(step, tmp_path_factory.mktemp("torch") / "torch.json")


def on_device(events: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [e for e in events if e.get("cat") in {"kernel", "gpu_memcpy", "gpu_memset"}]


def test_the_same_kernels_copies_and_fills_as_torch(
    step: Callable[[], None], theirs: list[dict[str, Any]]
) -> None:
    ours = device_names(recorded(step).trace)
    assert ours == Counter(event["name"] for event in on_device(theirs))


def test_every_kernel_is_tied_to_the_same_operator_as_in_torch(
    step: Callable[[], None], theirs: list[dict[str, Any]]
) -> None:
    operators = {e["args"]["External id"]: e["name"] for e in theirs if e.get("cat") == "cpu_op"}
    expected = Counter(
        (event["name"], operators[event["args"]["External id"]]) for event in on_device(theirs)
    )
    assert operator_of_work(recorded(step).trace) == expected


def test_launches_have_the_shape_that_torch_writes(
    step: Callable[[], None], theirs: list[dict[str, Any]]
) -> None:
    keys = ("grid", "block", "registers per thread", "shared memory", "stream", "device", "context")

    def shapes(args: list[dict[str, Any]]) -> Counter[str]:
        return Counter(json.dumps([pairs[key] for key in keys]) for pairs in args)

    trace = recorded(step).trace
    kernels = np.flatnonzero(trace.slices.kind == SliceKind.KERNEL)
    ours = [trace.slices.args.of_row(int(row), trace.strings) for row in kernels]
    assert shapes(ours) == shapes([e["args"] for e in theirs if e.get("cat") == "kernel"])


def test_durations_are_those_of_torch(tmp_path: Path) -> None:
    a = torch.randn(4096, 4096, device="cuda")

    def products() -> None:
        for _ in range(20):
            torch.mm(a, a)
        torch.cuda.synchronize()

    products()
    taken = defaultdict(list)
    for _ in range(3):  # taking turns, as the device warms up
        for event in on_device(torch_json(products, tmp_path / "torch.json")):
            taken["torch"].append(event["dur"] * 1000)
        slices = recorded(products).trace.slices
        taken["ours"] += slices.duration_ns[slices.kind == SliceKind.KERNEL].tolist()
    assert len(taken["ours"]) == len(taken["torch"]) == 60
    assert np.median(taken["ours"]) == pytest.approx(np.median(taken["torch"]), rel=0.02)


def test_work_starts_after_its_launch_and_within_the_window(step: Callable[[], None]) -> None:
    trace = recorded(step).trace
    slices = trace.slices
    work, call = launched_work(trace)
    assert len(work) == np.isin(slices.kind, WORK).sum()
    assert (slices.start_ns[work] >= slices.start_ns[call]).all()
    assert (slices.end_ns[work] <= trace.info.end_ns).all()


def test_only_the_calls_that_matter_are_recorded(step: Callable[[], None]) -> None:
    trace = recorded(step).trace
    calls = np.flatnonzero(trace.slices.kind == SliceKind.RUNTIME)
    names = {trace.name_of(int(row)) for row in calls}
    assert "cudaLaunchKernel" in names
    assert "cudaMemcpyAsync" in names
    assert "cudaGetDevice" not in names
    assert "cuCtxSynchronize" not in names, "our own waiting at the end is no call of the program"


def test_a_replayed_graph_belongs_to_the_range_that_launched_it() -> None:
    a = torch.randn(64, 64, device="cuda")
    (a @ a).relu()
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        (a @ a).relu()

    def replay() -> None:
        with record_function("replayed"):
            graph.replay()

    prof = recorded(replay)
    slices = prof.trace.slices
    assert (slices.kind == SliceKind.KERNEL).sum() >= 2
    (mine,) = [average for average in prof.key_averages() if average.key == "replayed"]
    assert mine.device_time_total * 1000 == pytest.approx(
        slices.duration_ns[slices.kind == SliceKind.KERNEL].sum()
    )


def test_device_time_rolls_up() -> None:
    model = torch.nn.Sequential(torch.nn.Linear(64, 64), torch.nn.ReLU()).cuda()
    inputs = torch.randn(32, 64, device="cuda")

    def work() -> None:
        with record_function("inference"), torch.no_grad():
            model(inputs)

    work()
    prof = recorded(work, with_modules=True)
    slices = prof.trace.slices
    total_us = slices.duration_ns[np.isin(slices.kind, WORK)].sum() / 1000
    (whole,) = [average for average in prof.key_averages() if average.key == "inference"]
    (linear,) = [average for average in prof.key_averages() if average.key == "aten::linear"]
    assert whole.device_time_total == pytest.approx(total_us)
    assert 0 < linear.device_time_total < total_us
    assert any(event.kernels for event in prof.events())
    modules = prof.module_table()
    assert int(modules.device_ns[0]) == pytest.approx(total_us * 1000)


@pytest.mark.parametrize("sort_by", ["self_cuda_time_total", "self_device_time_total"])
def test_the_table_has_the_columns_of_cuda(step: Callable[[], None], sort_by: str) -> None:
    table = recorded(step, profile_memory=True).key_averages().table(sort_by=sort_by, row_limit=5)
    for column in ("Self CUDA", "Self CUDA %", "CUDA total", "CUDA time avg", "CUDA Mem"):
        assert column in table
    assert "Self CUDA time total:" in table


def test_the_chrome_file_ties_calls_to_work(step: Callable[[], None], tmp_path: Path) -> None:
    def work() -> None:
        with record_function("mine"):
            step()

    path = tmp_path / "ours.json.gz"
    recorded(work).export_chrome_trace(path)
    written = json.loads(gzip.decompress(path.read_bytes()))
    events = written["traceEvents"]
    assert written["deviceProperties"][0]["name"] == torch.cuda.get_device_name(0)
    flows = [event for event in events if event.get("cat") == "ac2g"]
    starts = Counter(event["id"] for event in flows if event["ph"] == "s")
    ends = Counter(event["id"] for event in flows if event["ph"] == "f")
    assert starts == ends == Counter(event["args"]["correlation"] for event in on_device(events))
    ranges = [event for event in events if event.get("cat") == "gpu_user_annotation"]
    (mine, *others) = [event for event in ranges if event["name"] == "mine"]  # one a stream
    assert all(other["tid"] != mine["tid"] for other in others)
    there = [event for event in on_device(events) if event["tid"] == mine["tid"]]
    assert mine["ts"] == pytest.approx(min(event["ts"] for event in there), abs=1e-3)
    assert "est. achieved occupancy %" in next(
        event["args"] for event in events if event.get("cat") == "kernel"
    )


def test_torch_profiler_works_before_and_after(step: Callable[[], None], tmp_path: Path) -> None:
    before = Counter(e["name"] for e in on_device(torch_json(step, tmp_path / "1.json")))
    ours = device_names(recorded(step).trace)
    after = Counter(e["name"] for e in on_device(torch_json(step, tmp_path / "2.json")))
    assert before == ours == after


def test_while_torch_profiler_is_on_the_host_is_recorded_and_a_line_says_so(
    step: Callable[[], None], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    inner: list[Trace] = []

    def work() -> None:
        inner.append(recorded(step).trace)

    theirs = torch_json(work, tmp_path / "torch.json")
    assert on_device(theirs), "torch's data was taken"
    assert not np.isin(inner[0].slices.kind, WORK).any()
    assert (inner[0].slices.kind == SliceKind.OPERATOR).any()
    assert "torch.profiler is using CUPTI" in capsys.readouterr().err


def test_two_of_ours_at_once_both_see_the_device(step: Callable[[], None]) -> None:
    inner: list[Trace] = []

    def work() -> None:
        step()
        inner.append(recorded(step).trace)

    outer = recorded(work).trace
    assert device_names(inner[0]) == device_names(recorded(step).trace)
    assert device_names(outer).total() == 2 * device_names(inner[0]).total()


def test_another_that_stops_leaves_none_of_its_own_calls(step: Callable[[], None]) -> None:
    def calls_of(work: Callable[[], object]) -> Counter[str]:
        trace = recorded(work).trace
        rows = np.flatnonzero(trace.slices.kind == SliceKind.RUNTIME)
        return Counter(trace.name_of(row) for row in rows)

    def looked_at() -> None:
        step()
        recorder = RUNNING.best()
        assert recorder is not None
        assert recorder.snapshot() is not None
        recorded(step)

    alone = calls_of(step)
    assert calls_of(looked_at) == Counter({name: 2 * count for name, count in alone.items()})


def test_the_device_alone(step: Callable[[], None]) -> None:
    with profile(activities=[ProfilerActivity.CUDA]) as prof:
        step()
    kinds = set(prof.trace.slices.kind.tolist())
    assert SliceKind.KERNEL in kinds
    assert SliceKind.OPERATOR not in kinds


def test_the_host_alone(step: Callable[[], None]) -> None:
    with profile(activities=[ProfilerActivity.CPU]) as prof:
        step()
    assert SliceKind.KERNEL not in set(prof.trace.slices.kind.tolist())


def test_a_limit_counts_what_it_drops() -> None:
    x = torch.zeros(1, device="cuda")
    x.add_(1)
    torch.cuda.synchronize()
    limit = stepscope.MemoryLimit(1 << 20)
    launched = 50_000
    with profile(activities=[ProfilerActivity.CUDA], memory_limit=limit) as prof:
        for _ in range(launched):
            x.add_(1)
    trace = prof.trace
    assert trace.losses.events > 0
    # A launch is a call and a kernel; the profiler's own waiting is not counted.
    assert len(trace.slices) + trace.losses.events == pytest.approx(2 * launched, abs=4)


def test_two_hundred_cycles(step: Callable[[], None]) -> None:
    counts = set()
    for _ in range(200):
        counts.add(device_names(recorded(step).trace).total())
    assert len(counts) == 1


def test_a_forked_child_records_without_the_device(capfd: pytest.CaptureFixture[str]) -> None:
    with profile():
        torch.ones(1, device="cuda").neg()
    child = os.fork()
    if child == 0:
        names = []
        with contextlib.suppress(BaseException):
            with profile() as own:
                torch.ones(1).neg()
            names = [event.name for event in own.events()]
        os._exit("aten::neg" not in names)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert "CUPTI does not survive a fork" in capfd.readouterr().err
