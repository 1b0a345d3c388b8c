"""Converts torch.profiler's arguments to recording options."""

from __future__ import annotations

import copy
import re
from dataclasses import dataclass, fields, replace
from typing import TYPE_CHECKING, Any

from stepscope.arguments import flag, shown
from stepscope.frameworks.torch.dialect.activity import ProfilerActivity
from stepscope.frameworks.torch.dialect.collectors import SYNC_EVENTS
from stepscope.notices import warn_user
from stepscope.record.options import RecordOptions, StackMode

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence


def record_options(
    *,
    record_shapes: bool,
    profile_memory: bool,
    with_stack: bool | StackMode,
    with_flops: bool,
    with_modules: bool,
    record_annotations: bool = False,
    record_workers: bool = False,
    activities: Collection[ProfilerActivity] = (ProfilerActivity.CPU,),
) -> RecordOptions:
    """Return the options of sources; operations are counted from shapes, as in torch."""
    shapes, flops = flag("record_shapes", record_shapes), flag("with_flops", with_flops)
    return RecordOptions(
        shapes=shapes or flops,
        memory=flag("profile_memory", profile_memory),
        stacks=stack_mode(with_stack),
        modules=flag("with_modules", with_modules),
        annotations=flag("record_annotations", record_annotations),
        workers=flag("record_workers", record_workers),
        host=ProfilerActivity.CPU in activities,
        device=ProfilerActivity.CUDA in activities,
    )


def stack_mode(with_stack: Any) -> StackMode:
    """Convert ``with_stack``: True is torch's, a timeline of all Python calls."""
    if isinstance(with_stack, StackMode):
        return with_stack
    if isinstance(with_stack, str):
        modes = ", ".join(f"StackMode.{mode.name}" for mode in StackMode)
        raise TypeError(f"with_stack={shown(with_stack)}: give True, False, or one of {modes}")
    return StackMode.CALLS if flag("with_stack", with_stack) else StackMode.NONE


@dataclass(frozen=True, slots=True)
class ExperimentalConfig:
    """torch.profiler's ``_ExperimentalConfig``, for programs without torch.

    The first group of fields asks for what Stepscope always does or need not do. Fields of the
    second group have no effect, and a warning names those that are set, with one exception:
    ``enable_cuda_sync_events`` records who waited for what on devices.
    """

    verbose: bool = False
    capture_overload_names: bool = False
    profile_all_threads: bool = False
    adjust_timestamps: bool = False
    disable_external_correlation: bool = False
    trace_only: bool = False
    record_python_gc_info: bool = False
    expose_kineto_event_metadata: bool = False
    adjust_profiler_step: bool = False

    profiler_metrics: Sequence[str] = ()
    profiler_measure_per_kernel: bool = False
    performance_events: Sequence[str] = ()
    enable_cuda_sync_events: bool = False
    custom_profiler_config: str = ""


_HARMLESS = {*(field.name for field in fields(ExperimentalConfig)[:9]), SYNC_EVENTS}


def warn_of_ignored(config: object) -> None:
    """Warn once about all fields of an experimental config that have no effect here."""
    ignored = [key for key, value in settings_of(config).items() if value and key not in _HARMLESS]
    if ignored:
        warn_user(
            f"experimental_config: {', '.join(sorted(ignored))} has no effect in Stepscope; "
            "everything else is recorded as requested"
        )


def checked_config(config: Any, *, with_stack: bool) -> Any:
    """Return the config without options that exclude each other, and warn about them."""
    warn_of_ignored(config)
    if not with_stack or not settings_of(config).get("trace_only"):
        return config
    warn_user(
        "trace_only=True is incompatible with with_stack=True (stack traces require event "
        "post-processing). Disabling trace_only."
    )
    if isinstance(config, ExperimentalConfig):
        return replace(config, trace_only=False)
    config = copy.copy(config)
    config.trace_only = False
    return config


def settings_of(config: Any) -> Mapping[str, Any]:
    """Return the fields of torch's config, of ours, of a mapping, or of any object."""
    if config is None:
        return {}
    if isinstance(config, str | bytes | bool | int | float | list | tuple | set):
        raise TypeError(
            f"experimental_config={shown(config)}: give an ExperimentalConfig, torch's or ours"
        )
    if isinstance(config, ExperimentalConfig):
        return {field.name: getattr(config, field.name) for field in fields(config)}
    if hasattr(config, "keys"):
        return dict(config)
    state = config.__getstate__() if hasattr(type(config), "__setstate__") else None
    if isinstance(state, tuple):
        # torch's config hides most fields: they are in the order of its constructor.
        signature = (type(config).__init__.__doc__ or "").partition("\n")[0]
        names = re.findall(r", (\w+): ", signature)
        return dict(zip(names, state, strict=False))
    return getattr(config, "__dict__", {})
