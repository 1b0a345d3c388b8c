"""One recording during a training: starting it, stepping, ending it, and writing its files."""

from __future__ import annotations

import atexit
import os
from pathlib import Path
from typing import Any

from stepscope.analysis.answer import answer
from stepscope.arguments import flag, folder_path
from stepscope.frameworks.torch.dialect.profile import profile
from stepscope.notices import notify
from stepscope.record.limits import MemoryLimit
from stepscope.record.source import known_options
from stepscope.text.answer import answer_text
from stepscope.trace.model import Trace

_MOST_MEMORY = 2 << 30  # bytes, as `stepscope run`
_OF_THE_DIALECT = {"device", "host", "stacks", "shapes", "memory", "modules", "workers"}


class Recording:
    """A profiler with the defaults of `stepscope run`; each of its traces is saved in a folder.

    ``options`` are those of ``stepscope.profile``, and win. However the process ends, what was
    recorded is saved.
    """

    def __init__(self, options: dict[str, Any], *, report: bool = True) -> None:
        """Check the options; nothing is recorded before start()."""
        self._report = flag("report", report)
        self._handler = options.get("on_trace_ready")
        self._folder: Path | None = None
        self._name = "stepscope"
        self._pid = os.getpid()
        self.saved: list[Path] = []
        self.trace: Trace | None = None
        self.profiler = profile(**{**run_options(), **options, "on_trace_ready": self._ready})
        self.running = False

    def saves_to(self, folder: str | os.PathLike[str] | None, name: str) -> None:
        """Save traces as FOLDER/NAME.stepscope; without a folder none is saved."""
        if folder is not None:
            folder_path("folder", folder)
            self._folder, self._name = Path(folder).absolute(), name

    def start(self) -> None:
        self.profiler.start()
        self.running = True
        self._pid = os.getpid()
        atexit.register(self.finish)

    def step(self) -> None:
        """End a step of the program."""
        if self.running:
            self.profiler.step()

    def finish(self) -> None:
        """End the recording; a second call does nothing."""
        if not self.running or self._pid != os.getpid():
            return
        self.running = False
        atexit.unregister(self.finish)
        self.profiler.stop()

    def answer(self) -> str:
        """Return the answer to the last trace as text."""
        if self.trace is None:
            return ""
        files = [f"saved: {path}" for path in self.saved]
        return "\n".join([answer_text(self.trace), "", *files, ""])

    def _ready(self, profiler: Any) -> None:
        self.trace = profiler.trace
        if self._folder is not None:
            self._save(profiler.trace, self._folder)
        if self._handler is not None:
            self._handler(profiler)

    def _save(self, trace: Trace, folder: Path) -> None:
        """Write the trace and its report; a full disk does not end a training."""
        from stepscope.report.build import export_html

        try:
            folder.mkdir(parents=True, exist_ok=True)
            path = _free(folder, self._name)
            trace.save(path)
            self.saved.append(path)
            page = path.with_suffix(".html")
            if self._report:
                export_html(trace, page, title=self._name)
                self.saved.append(page)
        except Exception as error:
            notify(f"{folder}: the trace was not saved: {error or type(error).__name__}")
            return
        notify(f"{answer(trace).verdict} Saved {path}{f' and {page}' if self._report else ''}")


def run_options() -> dict[str, Any]:
    """Return the options of ``profile`` that `stepscope run` records with."""
    given = {
        name: option.run_default
        for name, option in known_options().items()
        if option.run_default is not None and name not in _OF_THE_DIALECT
    }
    return {**given, "memory_limit": MemoryLimit(_MOST_MEMORY)}


def _free(folder: Path, name: str) -> Path:
    path, number = folder / f"{name}.stepscope", 1
    while path.exists():
        number += 1
        path = folder / f"{name}-{number}.stepscope"
    return path
