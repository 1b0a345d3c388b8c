"""Schedules, arguments, switches, and what torch knows of a profiler that runs."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import torch
from torch._C._profiler import _ExperimentalConfig
from torch.profiler import (
    ExecutionTraceObserver,
    ProfilerAction,
    ProfilerActivity,
    profile,
    record_function,
    schedule,
)

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from conftest import Both

CPU = [ProfilerActivity.CPU]


def ready_after(plan: Callable[[int], ProfilerAction], steps: int) -> list[Any]:
    seen: list[Any] = []

    def ready(prof: Any) -> None:
        names = [event.name for event in prof.events()]
        marked = [event.trace_name for event in prof.events() if event.name == "ProfilerStep*"]
        seen.append((prof.step_num, prof.current_action.name, marked, names.count("aten::add")))

    with profile(activities=CPU, schedule=plan, on_trace_ready=ready) as prof:
        for _ in range(steps):
            torch.ones(1) + 1
            prof.step()
    return seen


def test_schedules(both: Both) -> None:
    both(lambda: ready_after(schedule(wait=1, warmup=1, active=2), 8))
    both(lambda: ready_after(schedule(wait=1, warmup=1, active=2, repeat=1), 8))
    plan = {"skip_first": 2, "wait": 1, "warmup": 1, "active": 2, "skip_first_wait": 1}
    both(lambda: ready_after(schedule(**plan), 9))


def test_steps_without_a_start_record(both: Both) -> None:
    def program() -> Any:
        prof = profile(activities=CPU, schedule=schedule(wait=1, warmup=1, active=1))
        for _ in range(2):
            prof.step()
            torch.ones(1) + 1
        prof.step()
        return prof.step_num, [event.name for event in prof.events()]

    both(program)


def test_cycles_are_kept_where_asked_for(both: Both) -> None:
    def program() -> Any:
        collected = []
        for keeps in (False, True):
            plan = schedule(wait=0, warmup=1, active=1, repeat=2)
            with profile(acc_events=keeps, schedule=plan) as prof:
                for _ in range(5):
                    torch.ones(1)
                    prof.step()
            collected.append(sorted(event.name for event in prof.events()))
        return collected

    both(program)


class Refusal:
    """An error; one of ours may be of several kinds, as torch's releases differ."""

    def __init__(self, error: Exception) -> None:
        self.kind = type(error)

    def __repr__(self) -> str:
        return self.kind.__name__

    def __hash__(self) -> int:
        return 0

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Refusal) and (
            issubclass(self.kind, other.kind) or issubclass(other.kind, self.kind)
        )


def test_what_is_refused(both: Both) -> None:
    programs: list[Callable[[], Any]] = [
        lambda: profile(activities=[*CPU, *CPU]),
        lambda: profile(activities=["cpu"]),  # type: ignore[list-item]
        lambda: profile(activities=[]).start(),
        lambda: profile(post_processing_timeout_s=-1).start(),
        lambda: profile(schedule=lambda _step: ProfilerAction.DEVICE_STOPPED),
        lambda: schedule(wait=-1, warmup=0, active=1),
        lambda: profile().events(),
        lambda: profile(experimental_config=_ExperimentalConfig(trace_only=True)).events(),
    ]
    kinds = (ValueError, AssertionError, TypeError, RuntimeError)

    def refusals() -> list[Refusal]:
        collected = []
        for program in programs:
            try:
                program()
            except kinds as error:
                collected.append(Refusal(error))
        return collected

    assert len(both(refusals)) == len(programs)


def test_attributes_of_profilers(both: Both) -> None:
    with profile() as real:
        pass
    outer = [name for name in vars(real) if not name.startswith("_")]
    inner = [*(name for name in vars(real.profiler) if not name.startswith("_")), "_stats"]

    def program() -> Any:
        with profile(custom_trace_id_callback=lambda: "an id") as prof:
            pass
        return (
            [name for name in outer if not hasattr(prof, name)],
            [name for name in inner if not hasattr(prof.profiler, name)],
            prof.activities == set(CPU),
            prof.profiler.kineto_activities == set(CPU),
            type(prof.profiler.config()).__name__,
            prof.get_trace_id(),
            prof.profiler.trace_id,
        )

    assert both(program)[:2] == ([], [])


def test_torch_knows_of_a_profiler_that_runs(both: Both) -> None:
    kind, is_enabled = torch._C._autograd._profiler_type, torch._C._autograd._profiler_enabled

    def program() -> Any:
        def answer_of_child() -> Any:
            of_module = torch.autograd.profiler._is_profiler_enabled
            return str(kind()), is_enabled(), torch.autograd._profiler_enabled(), of_module

        values = [answer_of_child()]
        with profile(activities=CPU):
            values.append(answer_of_child())
        return [*values, answer_of_child()]

    both(program)


def test_collection_is_turned_off_and_on(both: Both) -> None:
    def program() -> Any:
        with profile(activities=CPU) as prof:
            for name, is_on in (("first", True), ("second", False), ("third", True)):
                prof.toggle_collection_dynamic(is_on, CPU)
                with record_function(name):
                    torch.ones(1)
        return [event.name for event in prof.events()]

    both(program)


def test_an_execution_trace_joins_the_file(both: Both, tmp_path: Path) -> None:

    def program() -> Any:
        graph, file = tmp_path / "graph.json", tmp_path / "trace.json"
        observer = ExecutionTraceObserver().register_callback(str(graph))
        with profile(
            activities=CPU,
            execution_trace_observer=observer,
            schedule=schedule(wait=1, warmup=1, active=2),
            on_trace_ready=lambda prof: prof.export_chrome_trace(str(file)),
        ) as prof:
            for i in range(5):
                with record_function(f"loop {i}"):
                    torch.ones(2) + 1
                prof.step()
        events = json.loads(file.read_text())["traceEvents"]
        numbers = {
            attribute["value"]
            for node in json.loads(graph.read_text())["nodes"]
            for attribute in node["attrs"]
            if attribute["name"] == "rf_id"
        }
        chosen = [e for e in events if e.get("cat") in ("cpu_op", "user_annotation")]
        return sorted((e["name"], e["args"]["Record function id"] in numbers) for e in chosen)

    assert all(is_known for _, is_known in both(program))
