"""What is on in a program that can be asked from outside: its recording, steps and triggers."""

from __future__ import annotations

import threading
import time
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from stepscope.live.steps import StepWatch
from stepscope.live.triggers import Triggers, TriggerWatch
from stepscope.record.recorder import Recorder
from stepscope.record.running import RUNNING
from stepscope.record.source import known_options, make_sources

if TYPE_CHECKING:
    from collections.abc import Mapping

    from stepscope.record.cycle import Cycle
    from stepscope.record.limits import Last, MemoryLimit
    from stepscope.record.running import Recorder as Running


class AlwaysOn:
    """A recording that goes on, where there is one, and who watches it."""

    def __init__(self, *, triggers: Triggers | None = None) -> None:
        """Begin with nothing that records."""
        self.steps = StepWatch()
        self.began_s = time.time()
        self._triggers = triggers or Triggers()
        self._watch: TriggerWatch | None = None
        self._own: Recorder | None = None
        self._one_at_a_time = threading.Lock()

    def record(self, keep: Last, options: Mapping[str, object]) -> None:
        """Begin a ring of our own."""
        limit = keep.limit()
        recorder = Recorder(make_sources(run_options(options), limit), limit)
        recorder.open()
        recorder.prepare()
        recorder.start()
        self._own = recorder
        self.watch(recorder, limit)

    def watch(self, recorder: Running, limit: MemoryLimit | None) -> None:
        """Watch for triggers in a recording; a ring must not lose what waits for its capture."""
        triggers = self._triggers
        if limit is not None and limit.seconds:
            triggers = replace(triggers, every_s=min(triggers.every_s, limit.seconds / 2))
        self._watch = TriggerWatch(recorder, triggers, self.steps)
        self._watch.start()

    def end_watch(self) -> None:
        """Watch no longer, before the recording ends."""
        watch, self._watch = self._watch, None
        if watch is not None:
            watch.stop()

    def stop(self) -> None:
        """End everything of our own."""
        self.end_watch()
        own, self._own = self._own, None
        if own is not None:
            own.finish()
            own.close()

    def best(self) -> Running | None:
        """Return the recording to look at; None where none runs."""
        return RUNNING.best()

    def recorded_for(self, seconds: float, options: Mapping[str, object]) -> Cycle | None:
        """Record from now on for so long, with options of its own; None when another does so."""
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
    """Return the options of ``stepscope run``, but for those that are given."""
    from stepscope.record.options import RecordOptions

    values = {
        name: option.run_default
        for name, option in known_options().items()
        if option.run_default is not None
    }
    return RecordOptions(**{**values, **given})
