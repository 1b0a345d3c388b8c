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

from typing import TYPE_CHECKING

from stepscope.lazy import lazy_names

if TYPE_CHECKING:
    from stepscope.analysis.base.shared import shared_analyses
    from stepscope.analysis.base.tree import CallTree, call_tree
    from stepscope.analysis.calls.stated_parts import Part
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
    from stepscope.analysis.steps.breakdown import StepBreakdown, step_breakdown
    from stepscope.analysis.steps.phases import Phase, phase_table
    from stepscope.analysis.steps.steps import Steps, step_table
    from stepscope.analysis.work.idle import (
        DeviceIdle,
        IdleGaps,
        IdleReason,
        device_idle,
        idle_gaps,
    )
    from stepscope.analysis.work.work import DeviceWork, WorkKind, device_work

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

__getattr__, __dir__ = lazy_names(
    __name__,
    {
        "stepscope.analysis.base.shared": "shared_analyses",
        "stepscope.analysis.base.tree": "CallTree call_tree",
        "stepscope.analysis.calls.stated_parts": "Part",
        "stepscope.analysis.device.busy": (
            "DeviceBusy StepBusy StreamBusy device_busy step_busy stream_busy"
        ),
        "stepscope.analysis.device.communication": (
            "CollectiveTable CommunicationOverlap collective_table communication_overlap"
        ),
        "stepscope.analysis.device.copies": "CopyTable copy_table",
        "stepscope.analysis.device.kernels": "KernelTable kernel_table",
        "stepscope.analysis.device.math": (
            "OperatorFlops TensorCoreTime device_model operator_flops tensor_core_time"
        ),
        "stepscope.analysis.device.peaks": "Peaks peak_flops_per_second peaks_of",
        "stepscope.analysis.device.power": "DevicePower device_power",
        "stepscope.analysis.device.queue": (
            "LaunchDelays LaunchQueues QueueLength launch_delays launch_queues queue_length"
        ),
        "stepscope.analysis.device.roofline": "Roofline flops_utilisation roofline",
        "stepscope.analysis.device.steps": "DeviceStep DeviceSteps device_step device_steps",
        "stepscope.analysis.findings": "DETECTORS Detector Facts Finding Severity find_problems",
        "stepscope.analysis.flops.count": "flops_of flops_per_second",
        "stepscope.analysis.host.averages": "Averages averages",
        "stepscope.analysis.host.flame": "flame_graph",
        "stepscope.analysis.host.flame_merge": "FlameGraph",
        "stepscope.analysis.host.modules": "ModuleTable module_table",
        "stepscope.analysis.host.sampled_flame": "sampled_flame_graph",
        "stepscope.analysis.host.sampled_lines": "SampledLines sampled_lines",
        "stepscope.analysis.host.source_lines": "SourceLines source_lines",
        "stepscope.analysis.memory.timeline": (
            "Category MemoryTimeline NoMemoryError memory_peak memory_timeline"
        ),
        "stepscope.analysis.memory.usage": "Peak",
        "stepscope.analysis.steps.breakdown": "StepBreakdown step_breakdown",
        "stepscope.analysis.steps.phases": "Phase phase_table",
        "stepscope.analysis.steps.steps": "Steps step_table",
        "stepscope.analysis.work.idle": "DeviceIdle IdleGaps IdleReason device_idle idle_gaps",
        "stepscope.analysis.work.work": "DeviceWork WorkKind device_work",
    },
)
