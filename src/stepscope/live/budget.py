"""Keeps what a recording costs below a share of the time: turns off its most expensive parts."""

from __future__ import annotations

import threading
import time
from typing import TYPE_CHECKING

from stepscope.notices import notify
from stepscope.record.source import Burden

if TYPE_CHECKING:
    from stepscope.record.recorder import Recorder

_EVERY_S = 2.0
_EVENT_NS = 250.0  # where it could not be measured: what an operator costs, see the README


class Budget:
    """Looks now and then at how many events there are, from a thread of its own."""

    def __init__(self, recorder: Recorder, share: float, event_ns: float = 0.0) -> None:
        """Take what records, the share of the time that it may cost, and an event's own cost.

        That is calibrated on this machine before anything records; 0 where it could not be.
        """
        self._recorder = recorder
        self._share = share
        self._event_ns = event_ns or _EVENT_NS
        self._seen = (0, time.monotonic())
        self._left = list(Burden)
        self._ended = threading.Event()

    def start(self) -> None:
        """Begin to look."""
        self._seen = self._recorder.emitted(), time.monotonic()
        threading.Thread(target=self._run, name="stepscope budget", daemon=True).start()

    def stop(self) -> None:
        """Look no longer."""
        self._ended.set()

    def look(self, emitted: int, now_s: float) -> str:
        """Turn the dearest off where the last events cost too much; return what, or nothing."""
        before, since_s = self._seen
        self._seen = emitted, now_s
        cost = (emitted - before) * self._event_ns / max(now_s - since_s, 1e-9) / 1e9
        while cost > self._share and self._left:
            burden = self._left.pop(0)
            if self._recorder.turn_off(burden):
                notify(
                    f"recording costs {cost:.1%} of the time, over the budget of "
                    f"{self._share:.1%}: {burden.value} are not recorded from now on"
                )
                return burden.value
        return ""

    def _run(self) -> None:
        while not self._ended.wait(_EVERY_S) and self._recorder.active:
            try:
                self.look(self._recorder.emitted(), time.monotonic())
            except Exception as error:  # of ours: the program has nothing to do with it
                notify(f"the overhead budget cannot be enforced: {type(error).__name__}: {error}")
                return
