"""A progress bar on the terminal for whatever takes longer than a second."""

from __future__ import annotations

import sys
import threading
from typing import Any, Self

_PATIENCE_S = 1.0


class Progress:
    """A context manager to call with (done, total); the bar appears after a second.

    Without such calls the bar only shows activity.
    """

    def __init__(self, title: str) -> None:
        self._title = title
        self._lock = threading.Lock()
        self.timer: threading.Timer | None = None
        self._bar: Any = None
        self._task: Any = None

    def __enter__(self) -> Self:
        if sys.stderr is not None and sys.stderr.isatty():
            self.timer = threading.Timer(_PATIENCE_S, self._show)
            self.timer.daemon = True
            self.timer.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self.timer is not None:
            self.timer.cancel()
            with self._lock:
                self.timer = None
                if self._bar is not None:
                    self._bar.stop()

    def __call__(self, done: int, total: int) -> None:
        if self._bar is not None:
            self._bar.update(self._task, completed=done, total=total)

    def _show(self) -> None:
        from rich.console import Console
        from rich.progress import BarColumn, TextColumn, TimeElapsedColumn
        from rich.progress import Progress as Bar

        columns = (TextColumn("stepscope: {task.description}"), BarColumn(), TimeElapsedColumn())
        with self._lock:
            if self.timer is None:
                return  # it was done while we got ready
            bar = Bar(*columns, console=Console(stderr=True), transient=True)
            self._task = bar.add_task(self._title, total=None)
            bar.start()
            self._bar = bar
