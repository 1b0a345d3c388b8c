"""What lines cost by the samples of their stacks: every number against samples written by hand."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest

from made_trace import Call, Sample, trace_of_calls
from stepscope.analysis.base.intervals import union
from stepscope.analysis.calls.waiting import Doing
from stepscope.analysis.code.own_lines import NO_LINE
from stepscope.analysis.host.sampled_lines import sampled_lines
from stepscope.trace.model import ThreadState

if TYPE_CHECKING:
    from stepscope.analysis.host.sampled_lines import SampledLines
    from stepscope.trace.model import Trace

MAIN = "train.py(30): <module>"
LOAD = "data.py(7): load"
SLEEP = "<native call time.sleep>"
LINEAR = "torch/nn/modules/linear.py(134): Linear.forward"
FORWARD = "model.py(12): Model.forward"
BLOCKED, NATIVE = ThreadState.BLOCKED, ThreadState.NATIVE


def lines_of(trace: Trace, **options: object) -> SampledLines:
    lines = sampled_lines(trace, **options)  # type: ignore[arg-type]
    assert lines is not None
    return lines


def by_line(lines: SampledLines, values: np.ndarray[tuple[int], np.dtype[np.int64]]) -> object:
    pairs = zip(lines.place, values.tolist(), strict=True)
    return {f"{place.file}:{place.line}": value // 1000 for place, value in pairs}


PROGRAM = trace_of_calls(
    [Call("aten::linear", 600, 900), Call("aten::addmm", 630, 880)],
    samples=[
        Sample(0, 500, (SLEEP, LOAD, MAIN), BLOCKED),
        Sample(500, 520, (LOAD, MAIN)),
        Sample(520, 600, ("numpy/core.py(3): f", FORWARD, MAIN), NATIVE),
        Sample(600, 640, (LINEAR, FORWARD, MAIN), NATIVE),
        Sample(640, 900, (LINEAR, FORWARD, MAIN), BLOCKED),  # OpenMP's threads do the work
        Sample(900, 1000, ("threading.py(3): f",)),
        Sample(0, 1000, ("log.py(9): write", MAIN), BLOCKED, track=1),
    ],
)


def test_the_innermost_line_of_the_users_has_the_time() -> None:
    lines = lines_of(PROGRAM)
    assert by_line(lines, lines.self_ns) == {
        "data.py:7": 520,
        "log.py:9": 0,  # its thread only waits
        "model.py:12": 80 + 40 + 260,
        "train.py:30": 0,
    }
    assert lines.elsewhere_ns == 100_000
    assert np.count_nonzero(lines.of_sample == NO_LINE) == 1


def test_whoever_calls_has_it_in_its_total() -> None:
    lines = lines_of(PROGRAM)
    assert by_line(lines, lines.total_ns) == {
        "data.py:7": 520,
        "log.py:9": 0,
        "model.py:12": 380,
        "train.py:30": 900,
    }


def test_the_parts_of_the_self_time_are_told_apart() -> None:
    lines = lines_of(PROGRAM)
    parts = {what.name: by_line(lines, lines.self_by[what])["model.py:12"] for what in Doing}  # type: ignore[index]
    # An operator that is blocked waits for its own helpers.
    assert parts == {"PYTHON": 0, "NATIVE": 80, "OPERATOR": 300, "WAITING": 0}
    assert by_line(lines, lines.self_by[Doing.WAITING])["data.py:7"] == 500  # type: ignore[index]
    assert np.sum(list(lines.self_by.values()), axis=0).tolist() == lines.self_ns.tolist()


def test_a_thread_without_a_core_is_at_what_its_frame_is() -> None:
    ready = ThreadState.READY
    samples = [Sample(0, 40, ("<native call f>", MAIN), ready), Sample(40, 100, (MAIN,), ready)]
    lines = lines_of(trace_of_calls([], samples=samples))
    parts = {what.name: int(lines.self_by[what][0]) // 1000 for what in Doing}
    assert parts == {"PYTHON": 60, "NATIVE": 40, "OPERATOR": 0, "WAITING": 0}


def test_what_ran_on_a_line_is_named() -> None:
    lines = lines_of(PROGRAM)
    parts = lines.parts
    rows = zip(parts.line, parts.name, parts.doing, parts.self_ns, strict=True)
    values = [
        (lines.place[line].file, PROGRAM.strings[int(name)], Doing(int(doing)).name, ns // 1000)
        for line, name, doing, ns in rows
    ]
    assert values == [
        ("data.py", SLEEP, "WAITING", 500),
        ("data.py", LOAD, "PYTHON", 20),
        ("model.py", "aten::addmm", "OPERATOR", 260),  # that of the sample's beginning
        ("model.py", "numpy/core.py(3): f", "NATIVE", 80),
        ("model.py", "aten::linear", "OPERATOR", 40),
    ]


def test_a_recursion_counts_once_in_the_total() -> None:
    frame = "tree.py(4): walk"
    trace = trace_of_calls([], samples=[Sample(0, 100, (frame, frame, frame, MAIN))])
    lines = lines_of(trace)
    assert by_line(lines, lines.total_ns) == {"train.py:30": 100, "tree.py:4": 100}


def test_only_some_of_the_time_counts_where_that_is_asked() -> None:
    within = union(np.array([400_000]), np.array([560_000]))
    lines = lines_of(PROGRAM, within=within)
    assert by_line(lines, lines.self_ns) == {
        "data.py:7": 120,
        "log.py:9": 0,
        "model.py:12": 40,
        "train.py:30": 0,
    }


@pytest.mark.parametrize(
    "launcher",
    [
        ("stepscope/cli/program.py(88): run", "/venv/bin/stepscope(8): <module>"),
        (
            *("<frozen runpy>(88): _run_code", "stepscope/cli/verbs/run.py(3): run"),
            *("stepscope/__main__.py(1): <module>", "<frozen runpy>(198): _run_module_as_main"),
        ),
    ],
)
def test_our_launcher_is_nobodys(launcher: tuple[str, ...]) -> None:
    trace = trace_of_calls([], samples=[Sample(0, 100, (LOAD, MAIN, *launcher))])
    lines = lines_of(trace)
    assert by_line(lines, lines.total_ns) == {"data.py:7": 100, "train.py:30": 100}


def test_a_trace_without_samples_has_no_lines() -> None:
    assert sampled_lines(trace_of_calls([Call("aten::mm", 0, 10)])) is None
    assert sampled_lines(trace_of_calls([], samples=[Sample(0, 9, ("torch/a.py(1): f",))])) is None
