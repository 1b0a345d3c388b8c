"""What Paddle's users write runs unchanged but for the import; so do our examples."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

from recording import SOURCE_DIR, run_python

ROOT = Path(__file__).parents[4]

# As the Paddle documentation has them, but for `import paddle.profiler as profiler`.
BEGIN = """
import os, sys, warnings
import paddle, stepscope.paddle as profiler
linear = paddle.nn.Linear(13, 5)
momentum = paddle.optimizer.Momentum(learning_rate=0.0003, parameters=linear.parameters())
def train():
    out = linear(paddle.randn([2, 13])); out.backward(); momentum.step(); momentum.clear_grad()
"""
CONTEXT_MANAGER = """
with profiler.Profiler(targets=[profiler.ProfilerTarget.CPU, profiler.ProfilerTarget.GPU],
                       scheduler=profiler.make_scheduler(closed=1, ready=2, record=3, repeat=1),
                       on_trace_ready=profiler.export_chrome_tracing('./profiler_demo')) as prof:
    for i in range(10):
        train(); prof.step()
prof.summary()
"""
PAIR = """
prof = profiler.Profiler(targets=[profiler.ProfilerTarget.CPU], scheduler=(5, 9),
                         on_trace_ready=profiler.export_protobuf('./profiler_demo'))
prof.start()
for i in range(10):
    train(); prof.step()
prof.stop()
prof.summary(sorted_by=profiler.SortedKeys.CPUTotal, op_detail=True, thread_sep=False,
             time_unit='us')
"""
RANGES = """
with profiler.Profiler(on_trace_ready=lambda p: None) as prof:
    with profiler.RecordEvent("record_add"):
        data = paddle.randn(shape=[3]) + paddle.randn(shape=[3])
    record_event = profiler.RecordEvent("record_sub")
    record_event.begin()
    data = paddle.randn(shape=[3]) - paddle.randn(shape=[3])
    record_event.end()
prof.summary(views=profiler.SummaryView.UDFView)
"""
FILES = """
prof.export("t.pb", format="pb")
def names(node):
    return [node.name, *(name for child in node.children_node for name in names(child))]
data = profiler.load_profiler_result("t.pb").get_data()
print("names:", sorted({name for root in data.values() for name in names(root)}))
prof.export("t.json")
"""


@pytest.fixture(autouse=True)
def _in_an_empty_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    if getattr(find_spec("paddle"), "origin", None) is None:
        pytest.skip("Paddle is not installed")
    monkeypatch.chdir(tmp_path)


def output_of(*parts: str) -> str:
    done = run_python("".join((BEGIN, *parts)))
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_the_context_manager_with_make_scheduler() -> None:
    text = output_of(CONTEXT_MANAGER, FILES)
    assert "Overview Summary" in text
    (path,) = Path("profiler_demo").glob("*.paddle_trace.json")
    events = json.loads(path.read_text(encoding="utf-8"))["traceEvents"]
    steps = [e["name"].partition("[")[0] for e in events if e.get("cat") == "ProfileStep"]
    assert steps == ["ProfileStep#3", "ProfileStep#4", "ProfileStep#5"]
    assert "matmul dygraph" in text.partition("names:")[2]
    assert json.loads(Path("t.json").read_text(encoding="utf-8"))["traceEvents"]


def test_a_pair_of_steps_with_start_and_stop() -> None:
    text = output_of(PAIR, FILES)
    assert "Operator Summary" in text
    assert len(list(Path("profiler_demo").glob("*.paddle_trace.pb"))) == 1
    names = text.partition("names:")[2]
    for name in ("ProfileStep#5", "ProfileStep#8", "matmul dygraph"):
        assert name in names
    assert "ProfileStep#4" not in names
    assert "ProfileStep#9" not in names


def test_ranges_with_a_block_and_with_begin_and_end() -> None:
    text = output_of(RANGES, FILES)
    assert "UserDefined Summary" in text
    for name in ("record_add", "record_sub"):
        assert name in text.partition("names:")[0]
        assert name in text.partition("names:")[2]


def test_the_phases_of_the_model_are_those_that_paddle_annotates() -> None:
    text = output_of(CONTEXT_MANAGER)
    model = text.partition("Model Summary")[2].partition("Note:")[0]
    for phase in ("Forward", "Backward", "Optimization"):
        assert phase in model


def test_schedulers_and_members_of_paddles_own_are_taken() -> None:
    text = output_of(
        """
import paddle.profiler as theirs
prof = profiler.Profiler(targets=[theirs.ProfilerTarget.CPU],
                         scheduler=theirs.make_scheduler(closed=0, ready=1, record=1, repeat=1),
                         on_trace_ready=lambda p: print("state", p.current_state))
with prof:
    for _ in range(3):
        with profiler.RecordEvent("mine", theirs.TracerEventType.Forward):
            train()
        prof.step()
assert prof.current_state == theirs.ProfilerState.CLOSED
prof.summary(sorted_by=theirs.SortedKeys.CPUMax, views=theirs.SummaryView.ModelView)
"""
    )
    assert "state ProfilerState.CLOSED" in text
    assert "Forward" in text


def run_example(name: str, *arguments: str) -> str:
    done = subprocess.run(
        [sys.executable, str(ROOT / "examples" / name), *arguments],
        env={**os.environ, "PYTHONPATH": str(SOURCE_DIR)},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_the_example_for_paddle_runs() -> None:
    text = run_example("paddle_train.py", "--steps", "12", "--out", "demo")
    for part in ("points/s", "reader_cost", "Perf Summary", "Overview Summary", "loss"):
        assert part in text
    assert len(list(Path("demo").iterdir())) == 1
