"""Informs torch that a profiler runs, as some of its code records only then."""

from __future__ import annotations

import sys
import threading
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from stepscope.record.patching import Patches
from stepscope.record.source import Source

if TYPE_CHECKING:
    from collections.abc import Callable

STEP_NAME = "ProfilerStep"


class Announcement(Source):
    """Tells the rest of torch when a profiler starts and stops, as torch's profiler does.

    When standing in for torch's own (``patch_torch``), it enters a state of torch's profiler that
    records nothing: torch checks for one before some of its ranges. No other profiler of torch's
    could run beside that, so otherwise only the function that is asked is replaced.
    """

    name = "announcement"

    def __init__(
        self, *, in_place_of_torch: bool, shapes: bool, on_start: Callable[[], object]
    ) -> None:
        """``on_start`` is called when a recording begins."""
        self._in_place = in_place_of_torch
        self._shapes = shapes
        self._on_start = on_start
        self._thread: int | None = None  # the thread that has the profiler state
        self._has_announced = False
        self._replaces_query = False

    def start(self) -> None:
        self._on_start()
        torch: Any = sys.modules.get("torch")
        profiler: Any = sys.modules.get("torch.autograd.profiler")
        if not hasattr(torch, "_C") or profiler is None:
            return
        if hasattr(profiler, "_run_on_profiler_start") and not profiler._is_profiler_enabled:
            self._has_announced = True
            profiler._run_on_profiler_start()
        if self._in_place and not torch.autograd._profiler_enabled():
            self._enter_state(torch)
        if self._thread is None:
            self._replaces_query = True
            _ENABLED.acquire()

    def stop(self) -> None:
        torch: Any = sys.modules.get("torch")
        if self._replaces_query:
            self._replaces_query = False
            _ENABLED.release()
        if self._thread == threading.get_ident():
            with suppress(RuntimeError):  # the program has left the state
                torch.autograd._disable_profiler()
        self._thread = None
        if self._has_announced:
            self._has_announced = False
            sys.modules["torch.autograd.profiler"]._run_on_profiler_stop()

    def _enter_state(self, torch: Any) -> None:
        native = torch._C._profiler
        config = native.ProfilerConfig(
            native.ProfilerState.KINETO,
            self._shapes,  # whether ranges report their inputs
            *(False,) * 4,
            native._ExperimentalConfig(),
            "",
        )
        # No CPU or CUDA build of torch has this device, so nothing is collected.
        nothing = {native.ProfilerActivity.MTIA}
        with suppress(RuntimeError, TypeError):
            torch.autograd._prepare_profiler(config, nothing)
            torch.autograd._enable_profiler(config, nothing)
            self._thread = threading.get_ident()


def _say_enabled(patches: Patches) -> None:
    patches.replace(sys.modules["torch"].autograd, "_profiler_enabled", lambda: True)


_ENABLED = Patches(_say_enabled)


def step_tracker() -> Any:
    return getattr(sys.modules.get("torch.autograd.profiler"), "KinetoStepTracker", None)
