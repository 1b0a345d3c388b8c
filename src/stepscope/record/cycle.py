"""A finished recording whose trace is made when it is first wanted, on whichever thread that is."""

from __future__ import annotations

import os
import threading
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

    from stepscope.trace.model import Trace


class Cycle:
    """A finished recording."""

    def __init__(self, make: Callable[[], Trace], size: int) -> None:
        """Take the function that builds the trace, and the approximate number of events."""
        self._make: Callable[[], Trace] | None = make
        self._size = size
        self._trace: Trace | None = None
        self._error: BaseException | None = None
        self._lock = threading.Lock()
        self._process = os.getpid()

    def __len__(self) -> int:
        return self._size

    def __bool__(self) -> bool:
        return True

    @property
    def trace(self) -> Trace:
        """Return the trace; the first call builds it."""
        if self._process != os.getpid():  # a forked child lacks the thread that builds it
            self._process, self._lock = os.getpid(), threading.Lock()
        with self._lock:
            make, self._make = self._make, None
            if make is not None:
                try:
                    self._trace = make()
                except BaseException as error:
                    self._error = error
            if self._error is not None:
                raise self._error
        assert self._trace is not None, "a forked child does not have what its parent was building"
        return self._trace
