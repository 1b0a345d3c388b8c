"""Events, averages and what they hold."""

from __future__ import annotations

import time
import warnings
from typing import TYPE_CHECKING, Any

import torch
from torch._C._profiler import _ExperimentalConfig, _RecordFunctionFast
from torch.autograd.profiler import profile as autograd_profile
from torch.autograd.profiler_util import EventList, FunctionEvent, FunctionEventAvg
from torch.profiler import ProfilerActivity, profile, record_function

if TYPE_CHECKING:
    from conftest import Both


def test_results_are_lists(both: Both) -> None:
    def program() -> Any:
        with profile(record_shapes=True) as prof:
            torch.ones(2, 2) @ torch.ones(2, 2)
        events, averages = prof.events(), prof.key_averages()
        summed = FunctionEventAvg()
        for event in events:
            if event.name == "aten::ones":
                summed.add(event)
        by_time = prof.events()
        by_time.sort(key=lambda event: -event.time_range.start)
        return (
            [isinstance(events, kind) for kind in (list, EventList)],
            isinstance(events[0], FunctionEvent),
            isinstance(averages[0], FunctionEventAvg),
            (summed.key, summed.count),
            len(events + averages),
            len([*events]) == len(events),
            [event.name for event in by_time],
            [key_average.key for key_average in prof.key_averages()],
            events is prof.events(),
            type(prof.profiler.function_events).__name__,
        )

    both(program)


def test_events_have_all_public_attributes(both: Both) -> None:
    names = [n for n in dir(FunctionEvent(1, "x", 1, 0, 1)) if not n.startswith("_")]

    def program() -> Any:
        with profile(record_shapes=True) as prof:
            torch.ones(2, 2)
        event, average = prof.events()[0], prof.key_averages()[0]
        of_average = [n for n in vars(FunctionEventAvg()) if not hasattr(average, n)]
        return [n for n in names if not hasattr(event, n)], of_average

    assert both(program) == ([], [])


def test_inputs_and_keywords(both: Both) -> None:
    a = torch.rand(2, 3)

    def program() -> Any:
        with profile(record_shapes=True) as prof:
            torch.cat([a, a])
            torch.add(a, a, alpha=2)
            with _RecordFunctionFast("fast", [a, 1], {"stream": 0, "grid": "x", "on": True}):
                a.view(6)
            with record_function("range", "its text"):
                torch.sum(a, (0, 1))
        facts = ("name", "input_shapes", "structured_input_shapes", "input_dtypes", "scope")
        more = ("concrete_inputs", "kwinputs", "is_user_annotation", "activity_type")
        return [
            [getattr(e, name) for name in (*facts, *more)]
            for e in prof.events()
            if e.name != "range"  # torch reads its name after it is gone
        ]

    both(program)


def test_memory_is_attributed_alike(both: Both) -> None:
    def program() -> Any:
        with autograd_profile(profile_memory=True, record_shapes=True, use_kineto=True) as prof:
            with record_function("allocates"):
                x = torch.rand(10, 10)
            with record_function("frees"):
                del x
        return {
            e.key: (e.count, e.cpu_memory_usage, e.self_cpu_memory_usage)
            for e in prof.key_averages()
        }

    both(program)


def test_overloads_are_shown_where_asked_for(both: Both) -> None:
    def program() -> Any:
        collected = []
        for config in (None, _ExperimentalConfig(capture_overload_names=True)):
            with profile(activities=[ProfilerActivity.CPU], experimental_config=config) as prof:
                torch.ones(2) + 1
            by_overload = prof.key_averages(group_by_overload_name=True)
            collected.append([(e.name, e.overload_name) for e in prof.events()])
            collected.append([(e.key, e.overload_name, e.count) for e in by_overload])
            collected.append("Overload" in by_overload.table())
        return collected

    both(program)


def test_only_the_trace(both: Both) -> None:
    def program() -> Any:
        with profile(experimental_config=_ExperimentalConfig(trace_only=True)) as prof:
            torch.ones(1)
        collected = []
        for method in (prof.events, prof.key_averages):
            try:
                method()
            except RuntimeError as error:
                collected.append(str(error)[:27])
        with warnings.catch_warnings(record=True) as warned:
            warnings.simplefilter("always")
            config = _ExperimentalConfig(trace_only=True)
            other = profile(with_stack=True, experimental_config=config)
        return (
            collected,
            [str(w.message)[:20] for w in warned],
            other.experimental_config.trace_only,
        )

    both(program)


def test_statistics_are_filled_as_results_are_asked_for(both: Both) -> None:
    def program() -> Any:
        with profile() as prof:
            torch.ones(2) + 1
        stats = prof._stats()
        before = stats.number_of_events, stats.function_events_build_tree_call_duration_us
        prof.events()
        durations = [value > 0 for name, value in vars_of(stats).items() if "duration" in name]
        return before, stats.number_of_events, durations

    both(program)


def vars_of(stats: Any) -> dict[str, Any]:
    return {name: getattr(stats, name) for name in stats.__dataclass_fields__}


def test_times_are_of_one_clock(both: Both) -> None:
    def program() -> Any:
        with profile() as prof, record_function("range"):
            torch.ones(1)
        (event,) = [e for e in prof.events() if e.name == "range"]
        results = prof.profiler.kineto_results
        (raw,) = [e for e in results.events() if e.name() == "range"]
        since_start = (raw.start_ns() - results.trace_start_ns()) / 1000
        return (
            abs(since_start - event.time_range.start) < 1,
            abs(raw.start_ns() - time.time_ns()) < 60e9,
            raw.duration_ns() // 1000 == int(event.time_range.elapsed_us()),
        )

    assert both(program) == (True, True, True)


def test_python_calls_are_events(both: Both) -> None:
    def work() -> torch.Tensor:
        return torch.ones(2) + 1

    def program() -> Any:
        with profile(with_stack=True) as prof:
            work()
        calls = [e for e in prof.events() if e.is_python_function and e.name.endswith("work")]
        in_averages = any(key_average.key.endswith("work") for key_average in prof.key_averages())
        return len(calls), calls[0].activity_type, calls[0].python_id > 0, in_averages

    both(program)


def test_the_older_profiler(both: Both) -> None:
    def program() -> Any:
        values: list[Any] = [repr(autograd_profile())]
        with autograd_profile(enabled=False) as nothing:
            values.append(nothing)
        with warnings.catch_warnings(record=True) as warned:
            warnings.simplefilter("always")
            with autograd_profile(use_device="cpu", use_kineto=True) as prof:
                torch.ones(1)
            values.append([w.category for w in warned])
        values.append([event.name for event in prof.function_events])
        values.append(type(prof.config()).__name__)
        return values

    both(program)
