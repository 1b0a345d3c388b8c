"""Keeps what a recording costs below a share of the time: turns off its most expensive parts.

It is read before the program's first line, so it imports nothing.
"""

CALLS, MODULES = "Python calls and stacks", "calls of modules"
SAMPLES, OPERATORS = "samples of what threads do", "operators"
BURDENS = (CALLS, MODULES, SAMPLES, OPERATORS)
"""The most expensive parts of a recording first. Ranges and steps are cheap, and stay on."""

_EVENT_NS = 250.0  # an operator's cost, see the README; used where it could not be measured
_SHORTEST_LOOK_NS = 1_000_000_000

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable


class Budget:
    """Compares the number of events with the budget, and turns off expensive parts."""

    def __init__(
        self,
        share: float,
        event_ns: float,
        turn_off: "Callable[[str], bool]",
        notify: "Callable[[str], object]",
    ) -> None:
        """Take the share of the time that it may cost, an event's own cost, and what turns off.

        An event's cost is 0 where it could not be measured.
        """
        self._share = share
        self._event_ns = event_ns or _EVENT_NS
        self._turn_off = turn_off
        self._notify = notify
        self._burdens = list(BURDENS)
        self._seen = (0, 0)  # events, and when

    def look(self, events: int, now_ns: int) -> None:
        """Turn the most expensive part off if the events since the last call cost too much."""
        seen, since_ns = self._seen
        if now_ns - since_ns < _SHORTEST_LOOK_NS:
            return
        self._seen = events, now_ns
        cost = (events - seen) * self._event_ns / (now_ns - since_ns) if since_ns else 0.0
        while cost > self._share and self._burdens:
            burden = self._burdens.pop(0)
            if self._turn_off(burden):
                self._notify(
                    f"recording costs {cost:.1%} of the time, over the budget of "
                    f"{self._share:.1%}: {burden} are not recorded from now on"
                )
                return
