"""The mapping between the profilers' vocabularies, as data."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True)
class Dialect:
    """A module with one of the two vocabularies."""

    module: str
    vocabulary: str
    names: frozenset[str]  # what code imports from it


_TORCH_NAMES = frozenset(
    {
        *("profile", "schedule", "record_function", "tensorboard_trace_handler"),
        *("ProfilerActivity", "ProfilerAction", "DeviceType", "ExecutionTraceObserver"),
        *("supported_activities", "kineto_available", "itt"),
    }
)
_PADDLE_NAMES = frozenset(
    {
        *("Profiler", "RecordEvent", "make_scheduler", "load_profiler_result"),
        *("ProfilerTarget", "ProfilerState", "SortedKeys", "SummaryView", "TracerEventType"),
        *("export_chrome_tracing", "export_protobuf"),
    }
)

TORCH = Dialect(
    "torch.profiler", "torch", _TORCH_NAMES | {"_KinetoProfile", "KinetoStepTracker", "RecordScope"}
)
PADDLE = Dialect("paddle.profiler", "paddle", _PADDLE_NAMES)
STEPSCOPE = Dialect("stepscope", "torch", _TORCH_NAMES)
STEPSCOPE_PADDLE = Dialect("stepscope.paddle", "paddle", _PADDLE_NAMES)

# Every module that code takes a profiler's names from. Names beside a dialect's own that live in
# such a module (stepscope.read_trace) are not profiler code: they stay unchanged.
HOMES: Mapping[str, Dialect] = {
    "torch.profiler": TORCH,
    "torch.profiler.profiler": TORCH,
    "paddle.profiler": PADDLE,
    "paddle.profiler.profiler": PADDLE,
    "paddle.profiler.profiler_statistic": PADDLE,
    "paddle.profiler.utils": PADDLE,
    "stepscope": STEPSCOPE,
    "stepscope.torch": STEPSCOPE,
    "stepscope.paddle": STEPSCOPE_PADDLE,
}
ENUMS = frozenset(
    {
        *("ProfilerActivity", "ProfilerAction", "DeviceType"),
        *("ProfilerTarget", "ProfilerState", "SortedKeys", "SummaryView", "TracerEventType"),
    }
)
# The classes whose objects are followed through the program.
PROFILERS = frozenset({"profile", "Profiler"})
RANGES = frozenset({"record_function", "RecordEvent"})


def destination(source: Dialect, to: str) -> Dialect:
    """Return the dialect that ``--to`` means for code in ``source``."""
    if to == "stepscope":
        return STEPSCOPE if source.vocabulary == "torch" else STEPSCOPE_PADDLE
    return TORCH if to == "torch" else PADDLE


# A callable's parameters in the order in which it takes them, with their names in the other
# vocabulary; None where the other has no such thing.
Parameters = dict[str, str | None]


@dataclass(frozen=True)
class Direction:
    """The mapping of one dialect's code to another's."""

    names: Mapping[str, str]
    # An enum's members, by the name that the enum has in the source.
    members: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    # ... and those whose counterpart is no member.
    literals: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    parameters: Mapping[str, Parameters] = field(default_factory=dict)
    methods: Mapping[str, str] = field(default_factory=dict)
    missing_methods: frozenset[str] = frozenset()
    # Renamed parameters of callables that have the same name.
    missing_parameters: Mapping[str, frozenset[str]] = field(default_factory=dict)
    approximations: Mapping[str, str] = field(default_factory=dict)

    def parameter(self, function: str, name: str) -> str | None:
        """Return the target's name of a parameter; None if it has no such parameter."""
        if function in self.parameters:
            return self.parameters[function].get(name)
        return None if name in self.missing_parameters.get(function, ()) else name


def _reversed(pairs: Mapping[str, str]) -> dict[str, str]:
    return {there: here for here, there in pairs.items()}


_NAMES = {
    "profile": "Profiler",
    "schedule": "make_scheduler",
    "record_function": "RecordEvent",
    "tensorboard_trace_handler": "export_chrome_tracing",
    "ProfilerActivity": "ProfilerTarget",
    "ProfilerAction": "ProfilerState",
}
_ACTIVITIES = {"CPU": "CPU", "CUDA": "GPU", "XPU": "XPU", "PrivateUse1": "CUSTOM_DEVICE"}
_ACTIONS = {
    "NONE": "CLOSED",
    "WARMUP": "READY",
    "RECORD": "RECORD",
    "RECORD_AND_SAVE": "RECORD_AND_RETURN",
}
_PROFILE = {
    "activities": "targets",
    "schedule": "scheduler",
    "on_trace_ready": "on_trace_ready",
    "record_shapes": "record_shapes",
    "profile_memory": "profile_memory",
}
_SCHEDULE = {
    "wait": "closed",
    "warmup": "ready",
    "active": "record",
    "repeat": "repeat",
    "skip_first": "skip_first",
}
_ATTRIBUTES = {"current_action": "current_state", "schedule": "scheduler", "activities": "targets"}
_RANGE_METHODS = {"__enter__": "begin", "__exit__": "end"}

# What sort_by says is SortedKeys there. Paddle sorts by inclusive times only: a self time becomes
# the total that it is part of.
SORTED_KEYS = {
    "cpu_time_total": "CPUTotal",
    "cpu_time": "CPUAvg",
    "device_time_total": "GPUTotal",
    "device_time": "GPUAvg",
    "cuda_time_total": "GPUTotal",
    "cuda_time": "GPUAvg",
    "self_cpu_time_total": "CPUTotal",
    "self_device_time_total": "GPUTotal",
    "self_cuda_time_total": "GPUTotal",
}
_SORT_BY = {
    "CPUTotal": '"cpu_time_total"',
    "CPUAvg": '"cpu_time"',
    "CPUMax": '"cpu_time_total"',
    "CPUMin": '"cpu_time_total"',
    "GPUTotal": '"device_time_total"',
    "GPUAvg": '"device_time"',
    "GPUMax": '"device_time_total"',
    "GPUMin": '"device_time_total"',
}

_TORCH_TO_PADDLE = Direction(
    names=_NAMES,
    members={"ProfilerActivity": _ACTIVITIES, "ProfilerAction": _ACTIONS},
    parameters={
        # Paddle's Profiler takes a with_flops that it does not document and that counts nothing.
        "profile": {**_PROFILE, "with_stack": None, "with_flops": None, "with_modules": None},
        "schedule": dict(_SCHEDULE),
        "record_function": {"name": "name", "args": None},
        "tensorboard_trace_handler": {
            "dir_name": "dir_name",
            "worker_name": "worker_name",
            "use_gzip": None,
        },
        "export_chrome_trace": {"path": "path"},
        "key_averages": dict.fromkeys(
            ("group_by_input_shape", "group_by_stack_n", "group_by_overload_name")
        ),
        "table": {
            "sort_by": "sorted_by",
            "row_limit": None,
            "max_src_column_width": None,
            "max_name_column_width": None,
            "max_shapes_column_width": None,
            "header": None,
            "top_level_events_only": None,
            "time_unit": "time_unit",
        },
        "__exit__": dict.fromkeys(("type", "value", "traceback")),
    },
    methods={"export_chrome_trace": "export", **_ATTRIBUTES, **_RANGE_METHODS},
    missing_methods=frozenset(
        {
            *("key_averages", "events", "export_stacks", "export_memory_timeline"),
            *("add_metadata", "add_metadata_json", "preset_metadata_json"),
            *("toggle_collection_dynamic", "get_trace_id", "set_custom_trace_id_callback"),
            *("prepare_trace", "start_trace", "stop_trace", "profiler", "trace", "module_table"),
        }
    ),
    approximations={
        key: f"{key} has no counterpart in {{}}, sorted by {SORTED_KEYS[key]}"
        for key in SORTED_KEYS
        if key.startswith("self_")
    },
)

_PADDLE_TO_TORCH = Direction(
    names={**_reversed(_NAMES), "export_protobuf": "tensorboard_trace_handler"},
    members={"ProfilerTarget": _reversed(_ACTIVITIES), "ProfilerState": _reversed(_ACTIONS)},
    literals={"SortedKeys": _SORT_BY},
    parameters={
        "Profiler": {**_reversed(_PROFILE), "with_flops": "with_flops"},
        "make_scheduler": dict(_reversed(_SCHEDULE)),
        "RecordEvent": {"name": "name", "event_type": None},
        "export_chrome_tracing": {"dir_name": "dir_name", "worker_name": "worker_name"},
        "export_protobuf": {"dir_name": "dir_name", "worker_name": "worker_name"},
        "export": {"path": "path", "format": None},
        "step": {"num_samples": None},
        "summary": {
            "sorted_by": "sort_by",
            "op_detail": None,
            "thread_sep": None,
            "time_unit": "time_unit",
            "views": None,
            "row_limit": "row_limit",  # Stepscope's own
        },
    },
    methods={
        "export": "export_chrome_trace",
        "step": "step",
        "summary": "key_averages().table",
        **_reversed(_ATTRIBUTES),
        "begin": "__enter__",
        "end": "__exit__",
    },
    missing_methods=frozenset(
        {"step_info", "previous_state", "profiler_result", "summary_tables", "trace"}
    ),
    approximations={
        "export_protobuf": "export_protobuf has no counterpart in {}, which writes JSON",
        "pb": 'format="pb" has no counterpart in {}, which writes JSON',
        **{
            key: f"SortedKeys.{key} has no counterpart in {{}}, sorted by {_SORT_BY[key]}"
            for key in ("CPUMax", "CPUMin", "GPUMax", "GPUMin")
        },
    },
)

# What Stepscope's dialects have beyond those of the frameworks.
_STEPSCOPE_ONLY = Direction(
    names={},
    missing_methods=frozenset({"trace", "module_table", "summary_tables"}),
    missing_parameters={
        "profile": frozenset(
            {"record_annotations", "record_workers", "memory_limit", "torch_collector"}
        ),
        "summary": frozenset({"row_limit"}),
    },
)


_BELOW_THE_SURFACE = {"_KinetoProfile": "_KinetoProfile is LowLevelProfile of stepscope.torch"}


def direction(source: Dialect, target: Dialect) -> Direction:
    """Return the mapping from ``source`` to ``target``."""
    if source.vocabulary != target.vocabulary:
        return _TORCH_TO_PADDLE if target.vocabulary == "paddle" else _PADDLE_TO_TORCH
    common = {name: name for name in source.names & target.names}
    if source in {STEPSCOPE, STEPSCOPE_PADDLE}:
        return Direction(
            common,
            missing_methods=_STEPSCOPE_ONLY.missing_methods,
            missing_parameters=_STEPSCOPE_ONLY.missing_parameters,
        )
    return Direction(common, approximations=_BELOW_THE_SURFACE if target is STEPSCOPE else {})


# Dropping one of these with its default value changes nothing, and needs no remark.
_DEFAULTS = {"op_detail": {"True"}, "format": {'"json"', "'json'"}, "time_unit": set[str]()}
_OFF = {"False", "None"}


def says_nothing(parameter: str, value: str) -> bool:
    """Return whether an argument repeats the default."""
    return value in _DEFAULTS.get(parameter, _OFF)
