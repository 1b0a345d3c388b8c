"""Paddle's operators, backward pass and threads, through Paddle's own collector."""

from __future__ import annotations

import gc
import json
import os
import threading
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from paddle_recording import (
    category_of,
    paddle_or_skip,
    paddle_recorded,
    path_of,
    rows_of,
    trace_of,
)

import stepscope
from recording import row_of, run_python
from stepscope.frameworks.paddle.paddle_source import PaddleSource
from stepscope.record.options import RecordOptions
from stepscope.record.recorder import Recorder

paddle = paddle_or_skip()
core = paddle.base.core

if TYPE_CHECKING:
    from stepscope.trace.model import Trace


create = core._Profiler.create  # Paddle's own, whatever it is while we record


def slot_is_free() -> bool:
    """Tell whether Paddle would give its collector to somebody."""
    options = core.ProfilerOptions()
    options.trace_switch = 1
    return create(options, []) is not None


def test_an_eager_operator_has_its_inner_phases_as_paddle_names_them() -> None:
    x = paddle.ones([2, 2])
    with paddle_recorded() as recorder:
        paddle.matmul(x, x)
    trace = trace_of(recorder)
    operator = row_of(trace, "matmul dygraph")
    assert category_of(trace, operator) == "Operator"
    assert path_of(trace, operator) == ["matmul pybind_imperative_func", "matmul dygraph"]
    inner = {
        name: category_of(trace, row_of(trace, name))
        for name in ("matmul infer_meta", "matmul kernel launch")
    }
    assert inner == {
        "matmul infer_meta": "OperatorInner",
        "matmul kernel launch": "DygraphKernelLaunch",
    }
    for name in inner:
        assert path_of(trace, row_of(trace, name))[-2] == "matmul dygraph"


def test_the_backward_pass_is_recorded() -> None:
    linear = paddle.nn.Linear(3, 2)
    loss = linear(paddle.ones([1, 3])).sum()
    with paddle_recorded() as recorder:
        loss.backward()
    trace = trace_of(recorder)
    kernel = row_of(trace, "matmul_grad kernel launch")
    assert path_of(trace, kernel) == [
        "Gradient Backward",
        "backward",
        "Global_MatmulGradNode",
        "Local_MatmulGradNode",
        "matmul_grad kernel launch",
    ]


def test_operators_lie_within_our_ranges_around_them() -> None:
    x = paddle.ones([2])
    with paddle_recorded() as recorder:
        for i in range(50):
            with stepscope.record_function(f"around {i}"):
                paddle.exp(x)
    trace = trace_of(recorder)
    operators = rows_of(trace, "exp dygraph")
    assert [path_of(trace, row)[0] for row in operators] == [f"around {i}" for i in range(50)]
    assert "overlapping slices" not in trace.info.anomalies


def test_a_users_thread_is_a_track_of_its_own_and_shares_it_with_ranges() -> None:
    x = paddle.ones([2])
    native_id = 0

    def work() -> None:
        nonlocal native_id
        native_id = threading.get_native_id()
        with stepscope.record_function("in the thread"):
            paddle.exp(x)

    with paddle_recorded() as recorder:
        thread = threading.Thread(target=work, name="worker of mine")
        thread.start()
        thread.join()
        paddle.tanh(x)
    trace = trace_of(recorder)
    exp, tanh = row_of(trace, "exp dygraph"), row_of(trace, "tanh dygraph")
    track = trace.tracks[trace.slices.track[exp]]
    assert (track.pid, track.tid) == (str(os.getpid()), str(native_id))
    assert path_of(trace, exp)[0] == "in the thread"
    assert trace.tracks[trace.slices.track[tanh]].tid == str(threading.get_native_id())
    assert len({(t.pid, t.tid) for t in trace.tracks}) == len(trace.tracks)
    assert {t.process_name for t in trace.tracks} == {"python"}


def test_the_collector_is_taken_only_while_recording() -> None:
    source = PaddleSource(RecordOptions())
    recorder = Recorder([source])
    recorder.prepare()
    assert slot_is_free()
    recorder.start()
    assert not slot_is_free()
    recorder.stop()
    assert slot_is_free()


def test_the_collector_is_given_back_after_an_error() -> None:
    with pytest.raises(ZeroDivisionError), paddle_recorded() as recorder:
        paddle.exp(paddle.ones([1]))
        _ = 1 // 0
    assert slot_is_free()
    assert rows_of(trace_of(recorder), "exp dygraph")


def test_the_collector_is_given_back_when_the_start_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    plain = paddle.nn.Layer.__call__
    monkeypatch.delattr(paddle.profiler.RecordEvent, "end")
    with pytest.raises(AttributeError), paddle_recorded():
        pytest.fail("it has started")
    assert slot_is_free()
    assert paddle.nn.Layer.__call__ is plain


def test_a_paddle_profiler_that_is_alive_costs_a_line_and_paddles_operators(
    capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("stepscope.notices._shown", set())
    theirs = paddle.profiler.Profiler(timer_only=False, on_trace_ready=lambda _: None)
    with paddle_recorded() as recorder, stepscope.record_function("mine"):
        paddle.exp(paddle.ones([1]))
    del theirs
    gc.collect()
    trace = trace_of(recorder)
    assert list(trace.names()) == ["mine"]
    assert "not recorded" in trace.info.sources["paddle"]
    lines = [line for line in capfd.readouterr().err.splitlines() if "stepscope:" in line]
    assert len(lines) == 1
    assert "paddle.profiler.Profiler exists" in lines[0]
    with paddle_recorded() as recorder:
        paddle.exp(paddle.ones([1]))
    assert rows_of(trace_of(recorder), "exp dygraph")


def test_recording_prints_nothing(capfd: pytest.CaptureFixture[str]) -> None:
    with paddle_recorded():
        paddle.exp(paddle.ones([1]))
    printed = capfd.readouterr()
    assert printed.out == ""
    assert printed.err == ""


def test_profilers_that_overlap_see_each_their_own_time() -> None:
    x = paddle.ones([2])
    outer, inner = (Recorder([PaddleSource(RecordOptions())]) for _ in range(2))
    outer.start()
    paddle.exp(x)
    inner.start()
    paddle.tanh(x)
    outer.stop()
    paddle.sin(x)
    inner.stop()

    def operators(trace: Trace) -> list[str]:
        return [name for name in trace.names() if name.endswith("dygraph")]

    assert operators(trace_of(outer)) == ["exp dygraph", "tanh dygraph"]
    assert operators(trace_of(inner)) == ["tanh dygraph", "sin dygraph"]
    assert slot_is_free()


def test_a_pause_leaves_out_what_starts_in_it() -> None:
    x = paddle.ones([2])
    with paddle_recorded() as recorder:
        paddle.exp(x)
        recorder.pause()
        paddle.tanh(x)
        recorder.resume()
        paddle.sin(x)
    names = [name for name in trace_of(recorder).names() if name.endswith("dygraph")]
    assert names == ["exp dygraph", "sin dygraph"]


def test_a_paddle_that_is_imported_later_is_recorded_from_then_on() -> None:
    done = run_python(
        """
        import json, sys
        from stepscope.record.options import RecordOptions
        from stepscope.record.recorder import Recorder
        from stepscope.frameworks.paddle.paddle_source import PaddleSource
        recorder = Recorder([PaddleSource(RecordOptions(shapes=True))])
        recorder.prepare()
        recorder.start()
        assert "paddle" not in sys.modules
        import paddle
        paddle.nn.ReLU()(paddle.ones([2, 2]))
        trace = recorder.stop()
        print(json.dumps([list(trace.names()), dict(trace.info.sources)]))
        """
    )
    names, sources = json.loads(done.stdout.splitlines()[-1])
    assert {"import paddle", "ReLU", "relu dygraph"} <= set(names)
    words = f"operators of paddle {paddle.__version__}, through Paddle's own collector"
    assert sources == {"paddle": words}


def test_a_program_without_paddle_is_left_alone() -> None:
    done = run_python(
        """
        import sys
        from stepscope.record.options import RecordOptions
        from stepscope.record.recorder import Recorder
        from stepscope.frameworks.paddle.paddle_source import PaddleSource
        finders = list(sys.meta_path)
        recorder = Recorder([PaddleSource(RecordOptions(shapes=True, memory=True))])
        recorder.prepare()
        recorder.start()
        trace = recorder.stop()
        assert sys.meta_path == finders, sys.meta_path
        print("paddle" in sys.modules, len(trace), dict(trace.info.sources))
        """
    )
    assert done.stdout.splitlines()[-1] == "False 0 {}"


def test_a_module_of_that_name_that_is_no_paddle_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "paddle.py").write_text("speed = 3\n")
    done = run_python(
        """
        import sys
        sys.path.insert(0, sys.argv[1])
        from stepscope.record.options import RecordOptions
        from stepscope.record.recorder import Recorder
        from stepscope.frameworks.paddle.paddle_source import PaddleSource
        recorder = Recorder([PaddleSource(RecordOptions(shapes=True))])
        for _ in range(2):
            recorder.start()
            import paddle
            trace = recorder.stop()
        print(paddle.speed, len(trace), dict(trace.info.sources))
        """,
        str(tmp_path),
    )
    assert done.stdout.splitlines()[-1] == "3 0 {}", done.stderr


def test_a_forked_child_records_for_itself() -> None:
    x = paddle.ones([2])
    with paddle_recorded() as recorder:
        paddle.exp(x)
        child = os.fork()
        if not child:
            status = 1
            try:
                own = Recorder([PaddleSource(RecordOptions())])
                own.start()
                paddle.tanh(x)
                trace = own.stop()
                seen = [n for n in (trace.names() if trace else ()) if n.endswith("dygraph")]
                status = 0 if seen == ["tanh dygraph"] else 2
            finally:
                os._exit(status)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
        paddle.sin(x)
    names = [name for name in trace_of(recorder).names() if name.endswith("dygraph")]
    assert names == ["exp dygraph", "sin dygraph"]


def resident_bytes() -> int:
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def test_two_hundred_recordings_do_not_grow_the_process() -> None:
    linear, x = paddle.nn.Linear(4, 4), paddle.ones([2, 4])

    def cycle() -> Any:
        with paddle_recorded(shapes=True):
            for _ in range(10):
                linear(x).sum().backward()

    for _ in range(20):
        cycle()
    gc.collect()
    before = resident_bytes()
    for _ in range(200):
        cycle()
    gc.collect()
    # Paddle itself keeps 2.3 KB for each file that it writes.
    assert resident_bytes() - before < 200 * 8_000


def test_stacks_of_operators_are_not_claimed(
    capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("stepscope.notices._shown", set())
    with paddle_recorded(stacks=stepscope.StackMode.OPERATORS) as recorder:
        paddle.exp(paddle.ones([1]))
    assert "without their Python stacks" in trace_of(recorder).info.sources["paddle"]
    assert "the Python stacks of Paddle's operators are not recorded" in capfd.readouterr().err
