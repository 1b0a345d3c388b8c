"""What ``import stepscope.paddle as profiler`` gives, and what it costs."""

from __future__ import annotations

import inspect
import json
from typing import TYPE_CHECKING, Any

import pytest

import stepscope.paddle as profiler
from recording import run_python

if TYPE_CHECKING:
    from enum import Enum

NAMES = {
    *("ProfilerTarget", "ProfilerState", "make_scheduler", "Profiler", "RecordEvent"),
    *("SortedKeys", "SummaryView", "TracerEventType"),
    *("export_chrome_tracing", "export_protobuf", "load_profiler_result"),
}

ENUMS = {
    "ProfilerState": ["CLOSED", "READY", "RECORD", "RECORD_AND_RETURN"],
    "ProfilerTarget": ["CPU", "GPU", "XPU", "CUSTOM_DEVICE"],
    "SortedKeys": [
        *("CPUTotal", "CPUAvg", "CPUMax", "CPUMin"),
        *("GPUTotal", "GPUAvg", "GPUMax", "GPUMin"),
    ],
    "SummaryView": [
        *("DeviceView", "OverView", "ModelView", "DistributedView", "KernelView"),
        *("OperatorView", "MemoryView", "MemoryManipulationView", "UDFView"),
    ],
    "TracerEventType": [
        *("Operator", "Dataloader", "ProfileStep", "CudaRuntime", "Kernel", "Memcpy", "Memset"),
        *("UserDefined", "OperatorInner", "Forward", "Backward", "Optimization"),
        *("Communication", "PythonOp", "PythonUserDefined"),
        *("DygraphKernelLaunch", "StaticKernelLaunch"),
    ],
}


def defaults(function: Any) -> dict[str, Any]:
    parameters = inspect.signature(function).parameters.values()
    return {p.name: p.default for p in parameters if p.name != "self"}


def modules_after(code: str) -> set[str]:
    done = run_python(f"import json, sys\n{code}\nprint(json.dumps(list(sys.modules)))")
    assert done.returncode == 0, done.stderr
    return set(json.loads(done.stdout))


def test_exactly_the_names_of_the_contract() -> None:
    assert set(profiler.__all__) == NAMES
    assert set(dir(profiler)) >= NAMES
    for name in NAMES:
        assert getattr(profiler, name) is not None


def test_another_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="no_such_name"):
        profiler.no_such_name  # noqa: B018


@pytest.mark.parametrize("enum", ENUMS)
def test_the_enum_has_the_values_of_the_contract(enum: str) -> None:
    kind: type[Enum] = getattr(profiler, enum)  # that of Paddle, in C++, has no iterator
    members = [getattr(kind, name) for name in kind.__members__]
    assert [(member.name, member.value) for member in members] == [
        (name, number) for number, name in enumerate(ENUMS[enum])
    ]


def test_profiler_has_the_arguments_and_defaults_of_the_contract() -> None:
    parameters = inspect.signature(profiler.Profiler).parameters
    *theirs, ours = parameters.values()
    assert all(p.kind is p.KEYWORD_ONLY for p in theirs)
    assert (ours.name, ours.kind) == ("source_options", ours.VAR_KEYWORD)
    assert {p.name: p.default for p in theirs} == {
        "targets": None,
        "scheduler": None,
        "on_trace_ready": None,
        "record_shapes": False,
        "profile_memory": False,
        "timer_only": False,
        "emit_nvtx": False,
        "custom_device_types": [],
        "with_flops": False,
    }


def test_the_methods_have_the_arguments_and_defaults_of_the_contract() -> None:
    assert defaults(profiler.Profiler.step) == {"num_samples": None}
    assert defaults(profiler.Profiler.step_info) == {"unit": None}
    assert defaults(profiler.Profiler.export) == {"path": "", "format": "json"}
    summary = defaults(profiler.Profiler.summary)
    assert list(summary.items())[:5] == [
        ("sorted_by", profiler.SortedKeys.CPUTotal),
        ("op_detail", True),
        ("thread_sep", False),
        ("time_unit", "ms"),
        ("views", None),
    ]
    ours = inspect.signature(profiler.Profiler.summary).parameters
    assert all(ours[name].kind is inspect.Parameter.KEYWORD_ONLY for name in list(summary)[5:])


def test_the_functions_have_the_arguments_and_defaults_of_the_contract() -> None:
    empty = inspect.Parameter.empty
    for handler in (profiler.export_chrome_tracing, profiler.export_protobuf):
        assert defaults(handler) == {"dir_name": empty, "worker_name": None}
    assert defaults(profiler.make_scheduler) == {
        "closed": empty,
        "ready": empty,
        "record": empty,
        "repeat": 0,
        "skip_first": 0,
    }
    assert defaults(profiler.RecordEvent.__new__) == {
        "cls": empty,
        "name": empty,
        "event_type": profiler.TracerEventType.PythonUserDefined,
    }


def test_importing_it_imports_nothing_heavy() -> None:
    heavy = {"numpy", "polars", "rich", "torch", "paddle", "asyncio"}
    assert not modules_after("import stepscope.paddle as profiler") & heavy


def test_marking_ranges_imports_nothing_heavy() -> None:
    code = "import stepscope.paddle as p\nwith p.RecordEvent('a'):\n    pass"
    assert not modules_after(code) & {"numpy", "polars", "rich", "torch", "paddle"}


def test_recording_imports_no_framework() -> None:
    code = """
import stepscope.paddle as p
with p.Profiler(on_trace_ready=lambda prof: None), p.RecordEvent('a'):
    pass
"""
    assert not modules_after(code) & {"polars", "rich", "torch", "paddle"}


def test_it_is_a_module_of_stepscope() -> None:
    done = run_python("import stepscope\nprint(stepscope.paddle.RecordEvent.__name__)")
    assert done.stdout == "RecordEvent\n", done.stderr
