"""Programs without steps: what is said of where they spend their time."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from host_findings import (
    BLOCKED,
    PREPARE,
    assert_found,
    finding_of,
    problems_of,
    spend,
    training,
)
from made_trace import Sample, trace_of_calls
from stepscope.analysis.findings import Severity, find_problems
from stepscope.analysis.steps.ledger import ledger
from stepscope.trace.model import ThreadState, WaitReason
from training_program import LOOP, MS, Program

if TYPE_CHECKING:
    from pathlib import Path

    from training_program import Stack

PYTHON, NATIVE = ThreadState.PYTHON, ThreadState.NATIVE


def plain(*work: tuple[Stack, ThreadState]) -> Program:
    """Return a program without a framework and without steps: each stack for a second."""
    program = Program(framework="pandas")
    for stack, state in work:
        program.sample(stack, state, 1000 * MS)
    return program


@pytest.mark.parametrize(
    "call",
    [
        ("<native call PATTERN.sub>",),
        ("<native call db.execute>",),
        ("json/decoder.py(1): JSONDecoder.raw_decode", "<native call self.scan_once>"),
    ],
)
def test_a_plain_program_that_is_in_the_library_of_python(call: Stack) -> None:
    program = plain(((*PREPARE, *call), NATIVE), ((*LOOP, "<native call a @ b>"), NATIVE))
    finding = assert_found(program, "python-work", "train.py:5", 1000 * MS)
    assert "mostly in" in finding.text


def test_copies_of_a_run_without_steps_count_where_they_are_repeated() -> None:
    copies = ((*PREPARE, "<native call frame.copy>"), NATIVE)
    computes = ((*LOOP, "<native call a @ b>"), NATIVE)
    assert finding_of(plain(*[copies, computes] * 5), "redundant-copies") is not None
    assert finding_of(plain(*[copies] * 4, *[computes] * 6), "redundant-copies") is None


def test_before_its_first_line_a_program_does_nothing() -> None:
    """On a busy machine that moment may be most of what was sampled."""
    runpy = ("<frozen runpy>(198): _run_module_as_main", "<frozen runpy>(88): _run_code")
    for around in (runpy, (*runpy, "stepscope/cli/run.py(1): run")):
        assert problems_of(plain((around, PYTHON), ((*around, "<native call exec>"), NATIVE))) == []


def test_a_plain_program_whose_libraries_do_what_it_is_for() -> None:
    sums = (*PREPARE, "pandas/core/groupby.py(1): sum", "<native call func>")
    assert problems_of(plain((sums, NATIVE), ((*PREPARE, "<native call a @ b>"), NATIVE))) == []


def test_a_plain_program_that_compresses_is_told_so_and_not_alarmed() -> None:
    program = plain(((*PREPARE, "<native call zlib.compress>"), NATIVE))
    finding = assert_found(program, "python-work", "train.py:5", 1000 * MS)
    assert finding.title.startswith("zlib.compress takes")
    assert finding.severity is Severity.LOW


def test_a_librarys_function_may_have_the_name_of_a_builtin_method(tmp_path: Path) -> None:
    text = "import numpy as np\nfrom collections import deque\nseen = set()\n"
    (tmp_path / "waves.py").write_text(text, encoding="utf-8")
    main = f"{tmp_path}/waves.py(3): advance"
    assert problems_of(plain(((main, "<native call np.add>"), NATIVE))) == []
    program = plain(((main, "<native call seen.add>"), NATIVE))
    assert_found(program, "python-work", f"{tmp_path}/waves.py:3", 1000 * MS)


def test_short_calls_of_a_line_that_runs_python_are_part_of_it() -> None:
    rows = (*PREPARE, "pandas/core/frame.py(1): DataFrame.iterrows")
    program = plain((rows, PYTHON), (rows, PYTHON), ((*rows, "<native call new>"), NATIVE))
    assert_found(program, "python-work", "train.py:5", 3000 * MS)


def test_the_python_code_of_a_library_that_does_most_of_the_work() -> None:
    fit = (*PREPARE, "sklearn/tree.py(1): fit")
    program = plain((fit, PYTHON), *[((*fit, "<native call builder.build>"), NATIVE)] * 3)
    assert problems_of(program) == []


def test_an_event_loop_and_its_library_are_no_line_of_the_program() -> None:
    serves = (*PREPARE, "asyncio/runners.py(1): run", "asyncio/base_events.py(1): run_forever")
    polls = (*serves, "selectors.py(1): EpollSelector.select", "<native call self._selector.poll>")
    program = plain((serves, PYTHON), (polls, ThreadState.READY), (polls, NATIVE))
    assert finding_of(program, "python-work") is None


@pytest.mark.parametrize(("cores", "saves_ms"), [(8, [750]), (2, [500]), (1, [])])
def test_threads_that_no_longer_wait_still_share_the_cores(cores: int, saves_ms: list[int]) -> None:
    """Four threads take turns of a lock: without it, two at a time run on two cores."""
    works = PREPARE[::-1]
    locks = ("<native call lock.acquire>", *works)
    samples = [
        Sample(at, at + 5_000, works, NATIVE, track=track)
        if at // 5_000 % 4 == track
        else Sample(at, at + 5_000, locks, BLOCKED, WaitReason.LOCK, track)
        for at in range(0, 1_000_000, 5_000)
        for track in range(4)
    ]
    expected = {"cores": cores}
    trace = trace_of_calls([], samples=samples, end_ns=1000 * MS, parallelism=expected)
    assert ledger(trace).threads == 4
    findings = [finding for finding in find_problems(trace) if finding.id == "waiting-lock"]
    assert [item.of_ns for item in findings] == [pytest.approx(1000 * MS)] * len(saves_ms)
    assert [item.saves_ns for item in findings] == [pytest.approx(ms * MS) for ms in saves_ms]


COMPILES = (*PREPARE, "jax/_src/compiler.py(1): backend_compile")


def test_a_loop_that_compiles_again_and_again() -> None:
    loop = [work for _ in range(20) for work in ((COMPILES, NATIVE), (PREPARE, NATIVE))]
    program = plain(*loop)
    finding = assert_found(program, "recompilations", "train.py:5", 20_000 * MS)
    assert finding.of_ns == pytest.approx(40_000 * MS)


def test_a_program_that_compiles_at_first() -> None:
    program = plain(*[(COMPILES, NATIVE)] * 5, *[(PREPARE, NATIVE)] * 5)
    assert finding_of(program, "recompilations") is None


def test_threads_that_run_no_line_of_a_waiting_program() -> None:
    """What a pool's helpers do is not what the program can change."""
    program = Program(framework="pandas")
    program.aside(1, ("multiprocessing/pool.py(1): Pool._handle_tasks",), PYTHON, 1000 * MS)
    waits = (*PREPARE, "multiprocessing/pool.py(1): Pool.map", "threading.py(1): Event.wait")
    program.sample(waits, BLOCKED, 1000 * MS, wait=WaitReason.LOCK)
    assert [finding.id for finding in problems_of(program)] == ["waiting-lock"]
    assert_found(program, "waiting-lock", "train.py:5", 1000 * MS)


def test_an_event_loop_without_events_waits_for_no_file() -> None:
    idle = (*PREPARE, "asyncio/base_events.py(1): run_forever", "selectors.py(1): select")
    assert (
        finding_of(training(spend(idle, BLOCKED, 50 * MS, WaitReason.POLL)), "waiting-io") is None
    )
