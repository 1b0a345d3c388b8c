"""Converted programs run with the real profilers, and give a trace."""

from __future__ import annotations

import json
import runpy
import sys
from importlib.util import find_spec
from textwrap import dedent
from typing import TYPE_CHECKING

import pytest

from command_line import python, script
from migrating import converted

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.slow

pytest.importorskip("libcst")

# What the programs profile: one step of training, in either framework.
WORK = {
    "torch": """
        import torch
        model = torch.nn.Linear(13, 5)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        def train_step():
            model(torch.randn(2, 13)).sum().backward()
            optimizer.step()
            optimizer.zero_grad()
        """,
    "paddle": """
        import paddle
        model = paddle.nn.Linear(13, 5)
        optimizer = paddle.optimizer.Momentum(0.0003, parameters=model.parameters())
        def train_step():
            model(paddle.randn([2, 13])).sum().backward()
            optimizer.step()
            optimizer.clear_grad()
        """,
}

TORCH_PROGRAMS = {
    "start_and_stop": """
        from torch.profiler import profile, ProfilerActivity
        from work import train_step
        prof = profile(activities=[ProfilerActivity.CPU])
        prof.start(); train_step(); prof.stop()
        print(prof.key_averages().table(sort_by="cpu_time_total", row_limit=10))
        prof.export_chrome_trace("trace.json")
        """,
    "ranges": """
        import torch.profiler
        from work import train_step
        @torch.profiler.record_function("decorated")
        def step():
            train_step()
        with torch.profiler.profile(
            activities=[torch.profiler.ProfilerActivity.CPU],
            record_shapes=True,
            with_stack=True,
        ) as prof:
            with torch.profiler.record_function("model_inference"):
                step()
            manual = torch.profiler.record_function("manual")
            manual.__enter__()
            train_step()
            manual.__exit__(None, None, None)
        print(prof.key_averages(group_by_input_shape=True).table(sort_by="self_cpu_time_total"))
        prof.export_chrome_trace("trace.json")
        """,
    "schedule": """
        from torch import profiler
        from work import train_step
        def trace_handler(p):
            print(p.key_averages().table(sort_by="self_cpu_time_total", row_limit=-1))
            p.export_chrome_trace("trace_" + str(p.step_num) + ".json")
        with profiler.profile(
            schedule=profiler.schedule(wait=1, warmup=1, active=2, repeat=1),
            on_trace_ready=trace_handler,
        ) as p:
            for i in range(8):
                train_step(); p.step()
        """,
    "handler_and_own_schedule": """
        import torch.profiler as tp
        from work import train_step
        def my_schedule(step):
            if step < 2:
                return tp.ProfilerAction.WARMUP
            return tp.ProfilerAction.RECORD_AND_SAVE if step == 4 else (
                tp.ProfilerAction.RECORD if step < 4 else tp.ProfilerAction.NONE)
        with tp.profile(activities=[tp.ProfilerActivity.CPU], schedule=my_schedule,
                        on_trace_ready=tp.tensorboard_trace_handler("log", worker_name="w"),
                        profile_memory=True) as prof:
            for _ in range(6):
                train_step()
                prof.step()
        """,
}

PADDLE_PROGRAMS = {
    "scheduler": """
        import paddle.profiler as profiler
        from work import train_step
        with profiler.Profiler(
            targets=[profiler.ProfilerTarget.CPU],
            scheduler=profiler.make_scheduler(closed=1, ready=2, record=3, repeat=1),
            on_trace_ready=profiler.export_chrome_tracing('./profiler_demo')) as prof:
            for i in range(10):
                train_step(); prof.step()
        prof.summary()
        """,
    "pair": """
        from paddle.profiler import Profiler, ProfilerTarget, SortedKeys
        from work import train_step
        def save(p):
            p.export("trace.json", format="json")
        p = Profiler(targets=[ProfilerTarget.CPU], scheduler=(2, 5), on_trace_ready=save)
        p.start()
        for i in range(7):
            train_step()
            p.step(num_samples=2)
        p.stop()
        p.summary(sorted_by=SortedKeys.CPUAvg, op_detail=False, thread_sep=False, time_unit='us')
        """,
    "ranges": """
        from paddle import profiler
        from work import train_step
        with profiler.Profiler(targets=[profiler.ProfilerTarget.CPU], timer_only=False) as prof:
            with profiler.RecordEvent("model_inference", profiler.TracerEventType.Forward):
                train_step()
            manual = profiler.RecordEvent(name="manual")
            manual.begin()
            train_step()
            manual.end()
            print(prof.step_info())
        prof.export("trace.json")
        """,
}


def need(framework: str) -> None:
    """Skip the test without a framework; a folder of tests with its name is none."""
    spec = find_spec(framework)
    if spec is None or spec.origin is None:
        pytest.skip(f"needs {framework}")


def traces(folder: Path) -> list[str]:
    """Return the texts of the traces that a program wrote."""
    files = [path for path in folder.rglob("*.json") if "profiler_log" not in path.parts]
    return [path.read_text(encoding="utf-8") for path in files]


def check_traces(name: str, folder: Path) -> None:
    (trace,) = traces(folder)
    assert len(json.loads(trace)["traceEvents"]) > 10
    if name == "ranges":
        assert "model_inference" in trace
        assert "manual" in trace


def prepare(folder: Path, framework: str, program: str) -> Path:
    script(folder, dedent(WORK[framework]), "work.py")
    return script(folder, program)


def run_here(folder: Path, program: str, monkeypatch: pytest.MonkeyPatch) -> None:
    path = prepare(folder, "torch", program)
    monkeypatch.chdir(folder)
    monkeypatch.syspath_prepend(str(folder))
    monkeypatch.delitem(sys.modules, "work", raising=False)
    runpy.run_path(str(path), run_name="__main__")


def run_alone(folder: Path, framework: str, program: str) -> str:
    path = prepare(folder, framework, program)
    done = python(str(path), cwd=folder)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.parametrize("name", TORCH_PROGRAMS)
def test_torch_code_runs_with_stepscope(
    name: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    pytest.importorskip("torch")
    run_here(tmp_path, converted(TORCH_PROGRAMS[name], "stepscope"), monkeypatch)
    if name != "handler_and_own_schedule":
        assert "aten::addmm" in capsys.readouterr().out
    check_traces(name, tmp_path)


@pytest.mark.parametrize("name", PADDLE_PROGRAMS)
def test_paddle_code_runs_with_torch(
    name: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    pytest.importorskip("torch")
    run_here(tmp_path, converted(PADDLE_PROGRAMS[name], "torch"), monkeypatch)
    if name != "ranges":
        assert "aten::addmm" in capsys.readouterr().out
    check_traces(name, tmp_path)


@pytest.mark.parametrize("name", TORCH_PROGRAMS)
def test_torch_code_runs_with_paddle(name: str, tmp_path: Path) -> None:
    need("paddle")
    shown = run_alone(tmp_path, "paddle", converted(TORCH_PROGRAMS[name], "paddle"))
    if name != "handler_and_own_schedule":
        assert "Overview Summary" in shown
    check_traces(name, tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize("framework", ["paddle", "torch"])
@pytest.mark.parametrize("name", PADDLE_PROGRAMS)
def test_paddle_code_runs_with_stepscope(name: str, framework: str, tmp_path: Path) -> None:
    need(framework)
    shown = run_alone(tmp_path, framework, converted(PADDLE_PROGRAMS[name], "stepscope"))
    assert name == "ranges" or "Overview Summary" in shown
    check_traces(name, tmp_path)


@pytest.mark.parametrize("name", TORCH_PROGRAMS)
def test_torch_code_that_went_to_paddle_comes_back(name: str) -> None:
    program = dedent(TORCH_PROGRAMS[name])
    back = converted(converted(program, "paddle"), "torch")
    unmarked = [line.partition("  # stepscope migrate:")[0] for line in back.splitlines()]
    for line in program.splitlines():
        if "table(" not in line and "with_stack" not in line:
            assert line in unmarked


# ---- whole programs: each line runs after the conversion, or carries a mark


TORCH_TRAINING = """
    import argparse
    import os
    from torch.profiler import (
        ProfilerActivity, profile, record_function, schedule, tensorboard_trace_handler
    )
    from work import train_step

    def trace_handler(p):
        output = p.key_averages().table(sort_by="self_cpu_time_total", row_limit=10)
        print(output)
        p.export_chrome_trace("trace_" + str(p.step_num) + ".json")

    class Trainer:
        def __init__(self, steps):
            self.steps = steps
            self.prof = profile(
                activities=[ProfilerActivity.CPU],
                schedule=schedule(wait=1, warmup=1, active=2, repeat=1),
                on_trace_ready=trace_handler,
                with_stack=True,
            )

        def train(self):
            with self.prof:
                for i in range(self.steps):
                    with record_function(f"step {i}"):
                        train_step()
                    self.prof.step()

    def inference():
        for _ in range(2):
            with profile(activities=[ProfilerActivity.CPU], record_shapes=True) as prof:
                train_step()
        print(prof.key_averages().table(sort_by="cpu_time_total", row_limit=10))
        with profile(on_trace_ready=tensorboard_trace_handler("log")) as prof:
            train_step()
        return prof.step_num

    if __name__ == "__main__":
        parser = argparse.ArgumentParser()
        parser.add_argument("--steps", type=int, default=6)
        inference()
        trainer = Trainer(parser.parse_args([]).steps)
        trainer.train()
        print("recorded up to step", trainer.prof.step_num, os.path.exists("trace_4.json"))
    """
PADDLE_TRAINING = """
    import paddle.profiler as profiler
    from work import train_step

    def ready(prof):
        callback = profiler.export_chrome_tracing("log")
        callback(prof)
        prof.summary(sorted_by=profiler.SortedKeys.GPUTotal)

    class Runner:
        def __init__(self):
            self.prof = profiler.Profiler(
                targets=[profiler.ProfilerTarget.CPU], scheduler=(2, 4), on_trace_ready=ready
            )

        def run(self):
            self.prof.start()
            for i in range(6):
                event = profiler.RecordEvent("forward")
                event.begin()
                train_step()
                event.end()
                self.prof.step(num_samples=4)
                print(f"{i}: {self.prof.step_info(unit='images')}" + f'{self.prof.step_info()}')
            self.prof.stop()

    runner = Runner()
    runner.run()
    print("state", runner.prof.current_state.name)
    p = profiler.Profiler(timer_only=True)
    p.start()
    for i in range(12):
        p.step()
    info = p.step_info()
    p.stop()
    p.summary(op_detail=True, time_unit="ms", views=[profiler.SummaryView.OverView])
    """


def test_a_paddle_training_program_runs_with_torch(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("torch")
    text = converted(PADDLE_TRAINING, "torch")
    run_here(tmp_path, text, monkeypatch)
    shown = capsys.readouterr().out
    assert "aten::addmm" in shown
    assert "state NONE" in shown
    assert len(traces(tmp_path)) == 1
    assert "str()" in text  # no quotes within the f-strings: Python 3.11 has none there


def test_a_torch_training_program_runs_with_paddle(tmp_path: Path) -> None:
    need("paddle")
    shown = run_alone(tmp_path, "paddle", converted(TORCH_TRAINING, "paddle"))
    assert "Overview Summary" in shown
    assert "recorded up to step 6 True" in shown


@pytest.mark.parametrize(
    ("line", "to", "mark"),
    [
        ("p = profile(); q = 1\nq = profile()\np.stop()", "paddle", "delete p before"),
        ("rows = [e.key for e in profile().key_averages()]", "paddle", "key_averages as a value"),
        ("import torch\ntorch.autograd.profiler.profile()", "paddle", "is not converted"),
        (
            "def make():\n    return profile()\na = make()\nb = make()\na.export_chrome_trace('t')",
            "paddle",
            "delete a before",
        ),
        (
            "def make():\n    return profile()\na = make()\na.stop()\nb = make()",
            "paddle",
            "\na = None  # stepscope migrate: paddle.profiler has one Profiler at a time\nb =",
        ),
        (
            "p = profile()\nholder = Holder(p)\nwith profile() as q: pass",
            "paddle",
            "nothing else may hold p",
        ),
    ],
)
def test_what_would_fail_there_is_marked(line: str, to: str, mark: str) -> None:
    assert mark in converted("from torch.profiler import profile\n" + line, to)


def test_a_trace_that_torch_would_save_twice_is_marked() -> None:
    program = """
        from paddle.profiler import Profiler, export_chrome_tracing, utils
        with Profiler(on_trace_ready=export_chrome_tracing("log")) as p:
            pass
        p.export("again.json")
        assert not utils._is_profiler_used
        """
    text = converted(program, "torch")
    assert 'p.export_chrome_trace("again.json")  # stepscope migrate: torch saves a trace' in text
    assert "paddle.profiler.utils._is_profiler_used is not converted" in text
