"""Keeps what a recording costs below a share of the time: turns off its most expensive parts."""

from __future__ import annotations

import threading
import time
from typing import TYPE_CHECKING

from stepscope.notices import notify

if TYPE_CHECKING:
    from stepscope.record.recorder import Recorder

ORDER = (
    (("python",), "Python calls and stacks"),
    (("torch modules", "paddle layers"), "calls of modules"),
    (("sampler",), "samples of what threads do"),
    (("torch", "paddle"), "operators"),
)
"""The sources that go, in this order, by name; ranges and steps stay."""

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
        self._left = list(ORDER)
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
            names, what = self._left.pop(0)
            turned_off = [name for name in names if self._recorder.turn_off(name)]
            if turned_off:
                notify(
                    f"recording costs {cost:.1%} of the time, over the budget of "
                    f"{self._share:.1%}: {what} are not recorded from now on"
                )
                return what
        return ""

    def _run(self) -> None:
        while not self._ended.wait(_EVERY_S) and self._recorder.active:
            try:
                self.look(self._recorder.emitted(), time.monotonic())
            except Exception as error:  # of ours: the program has nothing to do with it
                notify(f"the overhead budget cannot be enforced: {type(error).__name__}: {error}")
                return
