"""Analyses of a trace: functions from a Trace to tables, which convert to data frames.

    from stepscope import read_trace
    from stepscope.analysis import device_idle, find_problems

    trace = read_trace("run.stepscope")
    for problem in find_problems(trace):
        print(problem.title, problem.text, problem.fix)
    print(device_idle(trace).to_polars())

Times are integer ns on the trace's clock, sizes are bytes. Nothing is imported before it is used.

==============  ===================================================================================
problems        ``find_problems``; ``DETECTORS`` is the registry of detectors
the host        ``averages`` of operators, ``module_table``, ``source_lines``, ``flame_graph``,
                ``call_tree`` (the events and how they nest); by samples of Python's stacks
                ``sampled_lines`` and ``sampled_flame_graph``
steps           ``step_table``, ``step_breakdown`` into parts, ``phase_table`` (compiling, warm-up)
devices         ``device_busy``, ``stream_busy``, ``step_busy``; ``device_steps`` and the average
                ``device_step`` beside the host's; ``device_idle`` and ``idle_gaps`` with the
                reason; ``kernel_table``, ``copy_table``, ``collective_table``,
                ``communication_overlap``; ``launch_delays``, ``launch_queues``, ``queue_length``;
                ``tensor_core_time``; ``device_work``, the base of all of these; ``device_model``;
                ``device_power``, their clocks and what holds them down
memory          ``memory_timeline`` by category and time, ``memory_peak``
arithmetic      ``flops_of`` each slice, ``flops_per_second``, ``operator_flops`` on devices,
                ``peak_flops_per_second``, ``peaks_of`` a device, ``roofline``,
                ``flops_utilisation``
several tables  ``shared_analyses``: within it, work that several tables need is done once
==============  ===================================================================================
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from stepscope.analysis.device.busy import (
        DeviceBusy,
        StepBusy,
        StreamBusy,
        device_busy,
        step_busy,
        stream_busy,
    )
    from stepscope.analysis.device.communication import (
        CollectiveTable,
        CommunicationOverlap,
        collective_table,
        communication_overlap,
    )
    from stepscope.analysis.device.copies import CopyTable, copy_table
    from stepscope.analysis.device.idle import (
        DeviceIdle,
        IdleGaps,
        IdleReason,
        device_idle,
        idle_gaps,
    )
    from stepscope.analysis.device.kernels import KernelTable, kernel_table
    from stepscope.analysis.device.math import (
        OperatorFlops,
        TensorCoreTime,
        device_model,
        operator_flops,
        tensor_core_time,
    )
    from stepscope.analysis.device.peaks import Peaks, peak_flops_per_second, peaks_of
    from stepscope.analysis.device.power import DevicePower, device_power
    from stepscope.analysis.device.queue import (
        LaunchDelays,
        LaunchQueues,
        QueueLength,
        launch_delays,
        launch_queues,
        queue_length,
    )
    from stepscope.analysis.device.roofline import Roofline, flops_utilisation, roofline
    from stepscope.analysis.device.steps import (
        DeviceStep,
        DeviceSteps,
        device_step,
        device_steps,
    )
    from stepscope.analysis.device.work import DeviceWork, WorkKind, device_work
    from stepscope.analysis.findings import (
        DETECTORS,
        Detector,
        Facts,
        Finding,
        Severity,
        find_problems,
    )
    from stepscope.analysis.flops.count import flops_of, flops_per_second
    from stepscope.analysis.host.averages import Averages, averages
    from stepscope.analysis.host.flame import flame_graph
    from stepscope.analysis.host.flame_merge import FlameGraph
    from stepscope.analysis.host.modules import ModuleTable, module_table
    from stepscope.analysis.host.sampled_flame import sampled_flame_graph
    from stepscope.analysis.host.sampled_lines import SampledLines, sampled_lines
    from stepscope.analysis.host.source_lines import SourceLines, source_lines
    from stepscope.analysis.memory.timeline import (
        Category,
        MemoryTimeline,
        NoMemoryError,
        memory_peak,
        memory_timeline,
    )
    from stepscope.analysis.memory.usage import Peak
    from stepscope.analysis.shared import shared_analyses
    from stepscope.analysis.steps.breakdown import StepBreakdown, step_breakdown
    from stepscope.analysis.steps.parts import Part
    from stepscope.analysis.steps.phases import Phase, phase_table
    from stepscope.analysis.steps.steps import Steps, step_table
    from stepscope.analysis.tree import CallTree, call_tree

__all__ = [
    "DETECTORS",
    "Averages",
    "CallTree",
    "Category",
    "CollectiveTable",
    "CommunicationOverlap",
    "CopyTable",
    "Detector",
    "DeviceBusy",
    "DeviceIdle",
    "DevicePower",
    "DeviceStep",
    "DeviceSteps",
    "DeviceWork",
    "Facts",
    "Finding",
    "FlameGraph",
    "IdleGaps",
    "IdleReason",
    "KernelTable",
    "LaunchDelays",
    "LaunchQueues",
    "MemoryTimeline",
    "ModuleTable",
    "NoMemoryError",
    "OperatorFlops",
    "Part",
    "Peak",
    "Peaks",
    "Phase",
    "QueueLength",
    "Roofline",
    "SampledLines",
    "Severity",
    "SourceLines",
    "StepBreakdown",
    "StepBusy",
    "Steps",
    "StreamBusy",
    "TensorCoreTime",
    "WorkKind",
    "averages",
    "call_tree",
    "collective_table",
    "communication_overlap",
    "copy_table",
    "device_busy",
    "device_idle",
    "device_model",
    "device_power",
    "device_step",
    "device_steps",
    "device_work",
    "find_problems",
    "flame_graph",
    "flops_of",
    "flops_per_second",
    "flops_utilisation",
    "idle_gaps",
    "kernel_table",
    "launch_delays",
    "launch_queues",
    "memory_peak",
    "memory_timeline",
    "module_table",
    "operator_flops",
    "peak_flops_per_second",
    "peaks_of",
    "phase_table",
    "queue_length",
    "roofline",
    "sampled_flame_graph",
    "sampled_lines",
    "shared_analyses",
    "source_lines",
    "step_breakdown",
    "step_busy",
    "step_table",
    "stream_busy",
    "tensor_core_time",
]


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    globals().update({each: value for each, value in _imported().items() if each in __all__})
    return globals()[name]


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})


def _imported() -> dict[str, Any]:
    """Import all analyses, and return everything that their modules define."""
    from stepscope.analysis import findings, shared, tree
    from stepscope.analysis.device import (
        busy,
        communication,
        copies,
        idle,
        kernels,
        math,
        peaks,
        power,
        queue,
        roofline,
        work,
    )
    from stepscope.analysis.device import steps as on_device
    from stepscope.analysis.flops import count
    from stepscope.analysis.host import (
        averages,
        flame,
        modules,
        sampled_flame,
        sampled_lines,
        source_lines,
    )
    from stepscope.analysis.memory import timeline, usage
    from stepscope.analysis.steps import breakdown, parts, phases, steps

    device = (
        *(
            busy,
            communication,
            copies,
            idle,
            kernels,
            math,
            peaks,
            power,
            queue,
            roofline,
            on_device,
            work,
        ),
    )
    host = (averages, flame, modules, sampled_flame, sampled_lines, source_lines)
    others = (findings, shared, tree, count, timeline, usage, breakdown, parts, phases, steps)
    held: dict[str, Any] = {}
    for module in (*device, on_device, *host, *others):
        held |= vars(module)
    return held
