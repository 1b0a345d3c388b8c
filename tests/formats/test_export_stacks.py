"""Folded stacks: what FlameGraph and speedscope read."""

from __future__ import annotations

import gzip
from collections import Counter
from typing import TYPE_CHECKING

import pytest

from made_trace import Call, trace_of_calls
from sample_traces import HOSTILE
from stepscope.errors import UnsupportedError
from stepscope.formats import export_trace
from stepscope.formats.stacks import METRICS, export_stacks
from stepscope.frameworks.torch.dialect.event_lists import EventList

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

MAIN = ("train.py(9): main", "train.py(1): <module>")
STEP = ("model.py(4): forward", *MAIN)
CALLS = (
    Call("mm", 0, 10, stack=STEP),
    Call("add", 20, 25, stack=STEP),
    Call("mm", 30, 40, stack=MAIN),
    Call("mm", 50, 60, stack=STEP),
    Call("bare", 70, 80),
    Call("instant", 90, 90, stack=("nowhere",)),
)


def folded(path: Path) -> dict[str, int]:
    """Read the lines as FlameGraph does: the number after the last space."""
    lines = [line.rsplit(" ", 1) for line in path.read_text(encoding="utf-8").split("\n")[:-1]]
    assert len({stack for stack, _ in lines}) == len(lines), "a stack stands in two lines"
    return {stack: int(number) for stack, number in lines}


def exported(calls: Sequence[Call], path: Path, metric: str = METRICS[0]) -> dict[str, int]:
    EventList(trace_of_calls(calls)).export_stacks(path, metric)
    return folded(path)


def test_a_line_a_stack_from_the_outermost_frame(tmp_path: Path) -> None:
    assert exported(CALLS, tmp_path / "out.txt") == {
        "train.py(1):_<module>;train.py(9):_main;model.py(4):_forward": 25,
        "train.py(1):_<module>;train.py(9):_main": 10,
    }


def test_names_may_end_the_stacks(tmp_path: Path) -> None:
    path = tmp_path / "out.folded"
    export_trace(trace_of_calls(CALLS), path)
    forward = "train.py(1):_<module>;train.py(9):_main;model.py(4):_forward"
    assert folded(path) == {
        f"{forward};mm": 20,
        f"{forward};add": 5,
        "train.py(1):_<module>;train.py(9):_main;mm": 10,
    }


def test_frames_and_calls_of_python_make_one_graph(tmp_path: Path) -> None:
    """A recording may tell both: the running lines of an operator, and where functions begin."""
    calls = [
        Call("train.py(1): main", 0, 100, category="python_function"),
        Call("model.py(3): forward", 10, 60, category="python_function"),
        Call("mm", 20, 50, stack=STEP),
        Call("other thread", 20, 50, stack=MAIN, track=1),
    ]
    assert exported(calls, tmp_path / "out.txt") == {
        "train.py(1):_main": 20,  # of forward, which main called
        "train.py(1):_main;model.py(3):_forward": 30,
        "train.py(1):_<module>;train.py(9):_main": 30,
    }
    assert EventList(trace_of_calls(calls))[2].stack == list(STEP)


def test_self_times_are_counted_once(tmp_path: Path) -> None:
    calls = [Call("outer", 0, 100, stack=STEP), Call("inner", 10, 60), Call("more", 20, 30)]
    assert sum(exported(calls, tmp_path / "out.txt").values()) == 100


def test_times_are_summed_before_they_are_rounded(tmp_path: Path) -> None:
    short = [Call("a", i, i, stack=MAIN) for i in range(4)]
    trace = trace_of_calls([*short, Call("b", 10, 11, stack=MAIN)])
    trace.slices.self_ns[:4] = 400
    export_stacks(trace, tmp_path / "out.txt", names=False)
    assert list(folded(tmp_path / "out.txt").values()) == [2]  # 4 times 0.4 µs, and 1 µs


@pytest.mark.parametrize("name", HOSTILE)
def test_no_text_can_break_the_format(tmp_path: Path, name: str) -> None:
    path = tmp_path / "out.stacks"
    trace = trace_of_calls([Call(name, 0, 10, stack=(name, "", "a;b 7", "last 3\n"))])
    export_stacks(trace, path)
    ((stack, us),) = folded(path).items()
    assert us == 10
    frames = stack.split(";")
    assert frames[:3] == ["last_3_", "a_b_7", "_"]
    assert frames[3] == frames[4]
    assert len(frames[4]) == len(name)
    assert len(path.read_text(encoding="utf-8").splitlines()) == 1


def test_the_devices_time_is_counted_where_its_work_was_launched(tmp_path: Path) -> None:
    calls = [
        Call("op", 0, 100, stack=STEP),
        Call("cudaLaunchKernel", 20, 30, category="cuda_runtime", correlation=5),
        Call("kernel", 200, 260, category="kernel", track=1, correlation=5),
    ]
    result = exported(calls, tmp_path / "out.txt", "self_cuda_time_total")
    assert list(result.values()) == [60]
    assert exported(calls, tmp_path / "out.txt", "self_device_time_total") == result


def test_an_unknown_metric_is_named_with_those_there_are(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"'cpu_time'.*self_cpu_time_total, self_cuda_time_total"):
        exported(CALLS, tmp_path / "out.txt", "cpu_time")
    assert not list(tmp_path.iterdir())


def test_a_trace_without_stacks_is_refused_with_the_way_out(tmp_path: Path) -> None:
    with pytest.raises(UnsupportedError, match="with_stack=True"):
        exported([Call("a", 0, 10)], tmp_path / "out.txt")
    assert not list(tmp_path.iterdir())


def test_a_trace_in_which_nothing_happened_gives_an_empty_file(tmp_path: Path) -> None:
    assert exported([], tmp_path / "out.txt") == {}


def test_a_gz_suffix_compresses(tmp_path: Path) -> None:
    export_trace(trace_of_calls(CALLS), tmp_path / "out.stacks.gz")
    export_trace(trace_of_calls(CALLS), tmp_path / "out.stacks")
    packed = gzip.decompress((tmp_path / "out.stacks.gz").read_bytes())
    assert packed == (tmp_path / "out.stacks").read_bytes()


def test_torchs_file_has_the_same_stacks(tmp_path: Path) -> None:
    """torch writes a line an event and cuts each to whole µs."""
    torch = pytest.importorskip("torch")
    from torch._C._profiler import _ExperimentalConfig

    from stepscope import read_trace

    model, data = torch.nn.Linear(8, 4), torch.randn(2, 8)
    with torch.profiler.profile(
        activities=[torch.profiler.ProfilerActivity.CPU],
        with_stack=True,
        experimental_config=_ExperimentalConfig(verbose=True),
    ) as theirs:
        for _ in range(5):
            model(data).sum().backward()
    theirs.export_chrome_trace(str(tmp_path / "trace.json"))
    theirs.export_stacks(str(tmp_path / "theirs.txt"), "self_cpu_time_total")
    ours = EventList(read_trace(tmp_path / "trace.json"))
    ours.export_stacks(tmp_path / "ours.txt", "self_cpu_time_total")
    summed: Counter[str] = Counter()
    events: Counter[str] = Counter()
    for line in (tmp_path / "theirs.txt").read_text(encoding="utf-8").splitlines():
        stack, number = line.rsplit(" ", 1)
        summed[stack] += int(number)
    for event in ours:
        events[";".join(frame.replace(" ", "_") for frame in reversed(event.stack))] += 1
    result = folded(tmp_path / "ours.txt")
    assert set(summed) <= set(result)
    assert len(summed) > 20
    for stack, us in result.items():
        assert summed[stack] <= us <= summed[stack] + events[stack]
