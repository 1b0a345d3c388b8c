"""What is on in a program that calls ``serve``: its recording, steps and triggers."""

from __future__ import annotations

import threading
import time
from functools import partial
from typing import TYPE_CHECKING, Any

from stepscope.live.captures import write_capture
from stepscope.live.steps import StepWatch, ranges_of_process
from stepscope.live.triggers import OwnTriggers, Triggers
from stepscope.record.recorder import Recorder
from stepscope.record.source import known_options, make_sources

if TYPE_CHECKING:
    from collections.abc import Mapping

    from stepscope.record.cycle import Cycle
    from stepscope.record.limits import Last


class AlwaysOn:
    """The recording of a program that calls ``serve``, its steps and its triggers."""

    def __init__(self, *, triggers: Triggers | None = None) -> None:
        self.steps = StepWatch(ranges_of_process())
        self.began_s = time.time()
        self._triggers = triggers or Triggers()
        self._watch: OwnTriggers | None = None
        self._own: Recorder | None = None
        self._one_at_a_time = threading.Lock()

    def record(self, keep: Last, options: Mapping[str, object]) -> None:
        """Start a ring, and watch it for triggers."""
        limit = keep.limit()
        recorder = Recorder(make_sources(run_options(options), limit), limit)
        recorder.open()
        recorder.prepare()
        recorder.start()
        self._own = recorder
        triggers = self._triggers.within_ring(limit.seconds)
        write = partial(write_capture, recorder)
        self._watch = OwnTriggers(triggers, self.steps, write, lambda: recorder.active)
        self._watch.start()

    def stop(self) -> None:
        """End the ring and its triggers."""
        watch, self._watch = self._watch, None
        if watch is not None:
            watch.stop()
        own, self._own = self._own, None
        if own is not None:
            own.finish()
            own.close()

    def recorded_for(self, seconds: float, options: Mapping[str, object]) -> Cycle | None:
        """Record for some seconds with options of its own; None while another capture does so."""
        if not self._one_at_a_time.acquire(blocking=False):
            return None
        try:
            recorder = Recorder(make_sources(run_options(options)))
            recorder.open()
            try:
                recorder.prepare()
                recorder.start()
                time.sleep(seconds)
                return recorder.finish()
            finally:
                recorder.close()
        finally:
            self._one_at_a_time.release()


def run_options(given: Mapping[str, object]) -> Any:
    """Return the defaults of ``stepscope run``, overridden by the given options."""
    from stepscope.record.options import RecordOptions

    values = {
        name: option.run_default
        for name, option in known_options().items()
        if option.run_default is not None
    }
    return RecordOptions(**{**values, **given})
