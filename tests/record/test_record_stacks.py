"""The Python stack in which a slice starts: whose frames, at which lines."""

from __future__ import annotations

import asyncio
import functools
import gc
import os
import threading
import weakref
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from python_frames import frames_of, place, stacks_recorded
from recording import nothing_left_on, ranges_recorded, row_of, run_python, trace_of
from stepscope import _native, record_function

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Iterator

pytestmark = pytest.mark.usefixtures("way_to_the_frames")


@pytest.fixture(autouse=True)
def _nothing_left_on() -> Iterator[None]:
    with nothing_left_on():
        yield


def mark(name: str) -> None:
    """Record a range whose innermost frame is this one."""
    with record_function(name):
        pass


MARK = place(mark, 2)


def stack_of(name: str, work: Callable[[], object]) -> list[str]:
    """Return the frames between a call of ``mark`` and ``work``'s caller, innermost first."""
    with stacks_recorded() as session:
        work()
    trace = trace_of(session)
    frames = frames_of(trace, row_of(trace, name))
    assert frames[0] == MARK
    (caller,) = [i for i, frame in enumerate(frames) if frame == place(stack_of, 3)]
    assert "test_record_stacks.py" in frames[caller + 1]
    return frames[1:caller]


# ---- which frames, at which lines


def test_three_functions_deep() -> None:
    def outer() -> None:
        middle()

    def middle() -> None:
        assert True
        inner()

    def inner() -> None:
        mark("m")

    assert stack_of("m", outer) == [place(inner, 1), place(middle, 2), place(outer, 1)]


def test_the_lines_are_those_being_executed() -> None:
    def work() -> None:
        for i in range(2):
            if i == 0:
                mark("first")
            else:
                mark("second")

    with stacks_recorded() as session:
        work()
    trace = trace_of(session)
    assert frames_of(trace, row_of(trace, "first"))[1] == place(work, 3)
    assert frames_of(trace, row_of(trace, "second"))[1] == place(work, 5)


def test_calls_from_one_line_have_one_stack() -> None:
    def work() -> None:
        mark("a"), mark("b")
        mark("c")

    with stacks_recorded() as session:
        work()
    trace = trace_of(session)
    a, b, c = (int(trace.slices.stack[row_of(trace, name)]) for name in "abc")
    assert a == b != c


def test_recursion() -> None:
    def work(depth: int) -> None:
        if depth == 1:
            mark("deep")
        else:
            work(depth - 1)

    frames = stack_of("deep", lambda: work(500))
    assert frames[:500] == [place(work, 2)] + [place(work, 4)] * 499
    assert len(frames) == 501  # the lambda


def test_stacks_of_any_depth_are_told_apart() -> None:
    def work(depth: int) -> None:
        mark(f"at {depth}")
        if depth:
            work(depth - 1)

    with stacks_recorded() as session:
        work(200)
    trace = trace_of(session)
    lengths = [len(frames_of(trace, row_of(trace, f"at {200 - i}"))) for i in range(200)]
    assert lengths == list(range(lengths[0], lengths[0] + 200))
    assert len(trace.stacks) < 1_000  # a tree: callers are shared


def test_generators() -> None:
    def numbers() -> Iterator[int]:
        mark("in the generator")
        yield 1

    def delegating() -> Iterator[int]:
        yield from numbers()

    def work() -> None:
        for _ in delegating():
            pass

    assert stack_of("in the generator", work) == [
        place(numbers, 1),
        place(delegating, 1),
        place(work, 1),
    ]


def test_coroutines() -> None:
    async def inner() -> None:
        await asyncio.sleep(0)
        mark("after the wait")

    async def items() -> AsyncIterator[int]:
        await inner()
        yield 1

    async def outer() -> None:
        async for _ in items():
            pass

    frames = stack_of("after the wait", lambda: asyncio.run(outer()))
    assert frames[:3] == [place(inner, 2), place(items, 1), place(outer, 1)]


def test_comprehensions_and_lambdas() -> None:
    def work() -> None:
        function = lambda: mark("m")  # noqa: E731
        [function() for _ in range(1)]

    frames = stack_of("m", work)
    assert frames[0] == place(work, 1, f"{work.__qualname__}.<locals>.<lambda>")
    # Python 3.12 runs the comprehension in the frame of its function.
    assert frames[1:] in (
        [place(work, 2)],
        [place(work, 2, f"{work.__qualname__}.<locals>.<listcomp>"), place(work, 2)],
    )


def test_methods_decorators_and_class_bodies() -> None:
    def decorated(function: Callable[[Any], None]) -> Callable[[Any], None]:
        @functools.wraps(function)
        def wrapper(self: Any) -> None:
            function(self)

        return wrapper

    class Model:
        @decorated
        def forward(self) -> None:
            mark("m")

        def __init__(self) -> None:
            self.forward()

    for _ in range(20):  # an interpreter that has learned how Model is called calls it otherwise
        with stacks_recorded() as session:
            Model()
        trace = trace_of(session)
        frames = frames_of(trace, row_of(trace, "m"))
        assert [frame.rpartition(".")[2] for frame in frames[1:4]] == [
            "forward",
            "wrapper",
            "__init__",
        ]
        assert frames[4].endswith("test_methods_decorators_and_class_bodies")


def test_code_without_a_file() -> None:
    source = "def made():\n\n    mark('m')\nmade()"
    frames = stack_of("m", lambda: exec(source, {"mark": mark}))
    assert frames[:2] == ["<string>(3): made", "<string>(4): <module>"]


@pytest.mark.parametrize(
    ("file", "shown"),
    [
        ('"quoted\\ \n</script>.py', '"quoted\\ \n</script>.py'),
        ("模型🔥.py", "模型🔥.py"),
        ("not utf-8 \udcff.py", "not utf-8 ?.py"),
        ("x" * 10_000, "x" * 10_000),
    ],
)
def test_hostile_file_names(file: str, shown: str) -> None:
    code = compile("mark('m')", file, "exec")
    frames = stack_of("m", lambda: exec(code, {"mark": mark}))
    assert frames[0] == f"{shown}(1): <module>"


def test_files_are_named_from_the_folder_they_are_imported_from() -> None:
    pytest.importorskip("polars")
    import polars

    frames = stack_of("m", lambda: polars.Series([1]).map_elements(lambda _: mark("m")))
    assert any(frame.startswith("polars/series/series.py(") for frame in frames)


def test_our_own_frames_are_not_shown() -> None:
    @record_function("around")
    def work() -> None:
        mark("m")

    assert stack_of("m", work) == [place(work.__wrapped__, 2)]  # type: ignore[attr-defined]


# ---- numbers and what they stand for


def test_code_that_comes_and_goes_keeps_its_own_names() -> None:
    """A new code object may lie where an old one lay."""
    with stacks_recorded() as session:
        for i in range(300):
            scope: dict[str, Any] = {"mark": mark}
            exec(f"def f{i}(): mark('m{i}')", scope)
            scope[f"f{i}"]()
            del scope
    trace = trace_of(session)
    for i in range(300):
        assert frames_of(trace, row_of(trace, f"m{i}"))[1] == f"<string>(1): f{i}"


def no_events_are_held() -> None:
    """Let go what earlier tests have dropped: events that are held keep the code of all stacks."""
    gc.collect()
    assert _native.held_windows() == 0


def test_code_is_let_go_when_nothing_records() -> None:
    no_events_are_held()

    def run_and_drop() -> weakref.ref[Any]:
        scope: dict[str, Any] = {"mark": mark}
        exec("def made(): mark('m')", scope)
        scope["made"]()
        return weakref.ref(scope["made"].__code__)

    with stacks_recorded() as session:
        code = run_and_drop()
        gc.collect()
        assert code() is not None
    trace = trace_of(session)  # which has the names of its frames from now on
    gc.collect()
    assert code() is None
    assert frames_of(trace, row_of(trace, "m"))[1] == "<string>(1): made"


@pytest.mark.slow
def test_two_hundred_recordings_do_not_keep_their_code() -> None:
    no_events_are_held()
    remaining: list[weakref.ref[Any]] = []
    for i in range(200):
        with stacks_recorded() as session:
            scope: dict[str, Any] = {"mark": mark}
            exec(f"def f(): mark('m{i}')", scope)
            scope["f"]()
            remaining.append(weakref.ref(scope["f"].__code__))
        assert len(trace_of(session).stacks) < 100
        del scope
    gc.collect()
    assert [code for code in remaining if code() is not None] == []


def test_without_being_asked_nothing_has_a_stack() -> None:
    with stacks_recorded():
        mark("with")
    with ranges_recorded() as session:
        mark("without")
    trace = trace_of(session)
    assert trace.slices.stack.tolist() == [0]
    assert len(trace.stacks) == 1


def test_windows_within_each_other() -> None:
    with ranges_recorded() as outermost:
        with stacks_recorded() as outer:
            mark("one")
            with stacks_recorded() as inner:
                mark("two")
            mark("three")
        mark("four")
    for session, names in [(outermost, "one two three"), (outer, "one two three"), (inner, "two")]:
        trace = trace_of(session)
        for name in names.split():
            assert frames_of(trace, row_of(trace, name))[0] == MARK
    trace = trace_of(outermost)
    assert frames_of(trace, row_of(trace, "four")) == []


def test_numbers_that_name_no_stack() -> None:
    rows, parent, frame, texts = _native.stack_table(np.array([0, 1, 2**32 - 1], np.uint32))
    assert rows.tolist() == [0, 0, 0]
    assert (parent.tolist(), frame.tolist(), texts) == ([0], [0], [""])


# ---- threads and forks


def test_each_thread_has_its_own_stacks() -> None:
    def work(i: int) -> None:
        for j in range(50):
            work_at_depth(i, j % 7)

    def work_at_depth(i: int, depth: int) -> None:
        if depth:
            work_at_depth(i, depth - 1)
        else:
            mark(f"thread {i}")

    with stacks_recorded() as session:
        threads = [threading.Thread(target=work, args=(i,)) for i in range(16)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    trace = trace_of(session)
    for i in range(16):
        rows = [row for row, name in enumerate(trace.names()) if name == f"thread {i}"]
        stacks = [frames_of(trace, row) for row in rows]
        assert [
            sum(frame.endswith("work_at_depth") for frame in frames) - 1 for frames in stacks
        ] == [j % 7 for j in range(50)]
        assert all(frames[-1].endswith("Thread._bootstrap") for frames in stacks)


def fork_and_mark() -> None:
    """Fork; fail when what the child records has not its own stack."""
    child = os.fork()
    if child == 0:
        status = 1
        try:
            mark("not recorded")
            with stacks_recorded() as own:
                mark("child's")
            trace = trace_of(own)
            status = 0 if frames_of(trace, row_of(trace, "child's"))[0] == MARK else 2
        finally:
            os._exit(status)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


def test_a_forked_child_records_stacks_of_its_own() -> None:
    with stacks_recorded() as session:
        mark("before")
        fork_and_mark()
        with ThreadPoolExecutor(1) as other:  # the child's main thread is another than here
            other.submit(fork_and_mark).result()
        mark("after")
    trace = trace_of(session)
    assert [frames_of(trace, row_of(trace, name))[0] for name in ("before", "after")] == [MARK] * 2


@pytest.mark.slow
def test_forks_while_other_threads_meet_new_stacks() -> None:
    finished = threading.Event()

    def work() -> None:
        while not finished.is_set():
            exec("mark('busy')", {"mark": mark})

    threads = [threading.Thread(target=work) for _ in range(2)]
    with stacks_recorded() as session:
        for thread in threads:
            thread.start()
        for _ in range(10):
            child = os.fork()
            if child == 0:
                with stacks_recorded() as own:
                    mark("child's")
                trace = trace_of(own)
                os._exit(0 if frames_of(trace, row_of(trace, "child's"))[0] == MARK else 1)
            assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
        finished.set()
        for thread in threads:
            thread.join()
    assert set(trace_of(session).names()) == {"busy"}


def test_a_program_may_end_while_threads_record_stacks() -> None:
    done = run_python(
        """
        import threading
        from stepscope import record_function
        from stepscope.record.options import StackMode
        from stepscope.record.session import Session
        from stepscope.frameworks.python.calls import PythonCalls
        Session([PythonCalls(StackMode.CALLS)]).start()
        def forever(i):
            while True:
                exec(f"with r('busy'): pass", {"r": record_function})
        for i in range(3):
            threading.Thread(target=forever, args=(i,), daemon=True).start()
        for _ in range(1000):
            with record_function("main"):
                pass
        """
    )
    assert (done.returncode, done.stderr) == (0, "")
