"""Records Paddle's operators, memory and phases, even if Paddle is imported later."""

from __future__ import annotations

import functools
import os
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from stepscope._native import record_function
from stepscope.frameworks.paddle.collected import Collected
from stepscope.frameworks.paddle.collector import Collector, Share, lending
from stepscope.frameworks.paddle.inputs import NotedInputs, OpInputs
from stepscope.frameworks.paddle.phases import phases
from stepscope.notices import notify
from stepscope.record.journal import HANDED_OVER, Journal, entries
from stepscope.record.options import HOST, INSIDE, MEMORY, SHAPES, STACKS
from stepscope.record.post_import import PostImport, imported_module
from stepscope.record.source import Burden, Source, Stage

if TYPE_CHECKING:
    from stepscope.record.limits import MemoryLimit
    from stepscope.record.options import RecordOptions
    from stepscope.record.patching import Patches
    from stepscope.record.stream.left_behind import LeftBehind
    from stepscope.trace.schema import Captured

_SLOT_TAKEN = (
    "Paddle's operators are not recorded: a paddle.profiler.Profiler exists, and Paddle allows "
    "only one at a time; delete it (del prof) before recording"
)
_NO_STACKS = (
    "the Python stacks of Paddle's operators are not recorded: its collector has none; the ranges "
    "and phases around them have theirs, and samples (--sample) show which lines run"
)


class PaddleSource(Source):
    """Records Paddle through its own collector, at once or when the program imports it.

    If a profiler of Paddle's is already alive it keeps the collector, and all else is recorded.
    """

    name = "paddle"
    burden = Burden.OPERATORS
    stage = Stage.OPERATORS
    when = HOST

    def __init__(self, options: RecordOptions) -> None:
        self._options = options
        self._started = False
        self._share: Share | None = None
        self._is_open = False
        self._was_refused = False
        self._acquired: list[Patches] = []
        self._hook = PostImport("paddle", self._on_import)

    @classmethod
    def made_for(cls, options: RecordOptions, _limit: MemoryLimit | None) -> Source:
        return cls(options)

    def prepare(self) -> None:
        if (paddle := _imported()) is None:
            self._hook.install()
        elif self._options[SHAPES]:
            _parts_of(paddle).inputs.prepare()

    def start(self) -> None:
        self._started = True
        self._share = None
        if (paddle := _imported()) is None:
            self._hook.install()
        else:
            self._begin(paddle)

    def stop(self) -> None:
        """Free the collector, restore Paddle's classes, and stop waiting for Paddle's import."""
        self._started = False
        self._hook.remove()
        while self._acquired:
            self._acquired.pop().release()
        if self._is_open and self._share is not None:
            self._is_open = False
            _parts_of(_imported()).collector.close(self._share)
        if self._options[INSIDE] and (collected := self._hand_over_collected()) is not None:
            collected.note(Journal(self.name, is_on=True))

    def collect(self) -> Captured | None:
        collected = self._hand_over_collected()
        if collected is None:
            return None
        from stepscope.record.threads import thread_names

        return collected.captured(thread_names(), os.getpid())

    @classmethod
    def recover(cls, remains: LeftBehind) -> Captured | None:
        return Collected.of(entries(remains, cls.name)).captured(remains.thread_names, remains.pid)

    def _hand_over_collected(self) -> Collected | None:
        """Hand over what Paddle collected."""
        share, self._share = self._share, None
        if share is None or not share.segments:
            return None
        parts = _parts_of(_imported())
        segments = [
            (segment.wall_offset_ns, segment.data(parts.collector.core))
            for segment in share.segments
        ]
        inputs = parts.inputs.noted() if self._options[SHAPES] else NotedInputs()
        return Collected(segments, self._options[MEMORY], inputs)

    def describe(self) -> str:
        paddle = _imported()
        if paddle is None:
            return ""
        if self._was_refused:
            return _SLOT_TAKEN
        more = ", without their Python stacks" if self._options[STACKS] else ""
        more += HANDED_OVER if self._options[INSIDE] and self._is_open else ""
        return f"operators of paddle {paddle.__version__}, through Paddle's own collector{more}"

    def _on_import(self, paddle: Any) -> None:
        if not _is_paddle(paddle):
            return
        with record_function("stepscope: prepare to record paddle"):
            if self._options[SHAPES]:
                _parts_of(paddle).inputs.prepare()
        if self._started:
            self._begin(paddle)

    def _begin(self, paddle: Any) -> None:
        parts = _parts_of(paddle)
        self._share = Share(self._options[MEMORY], [])
        self._is_open = parts.collector.open(self._share)
        self._was_refused = not self._is_open
        if self._was_refused:
            notify(_SLOT_TAKEN)
        elif self._options[STACKS]:
            notify(_NO_STACKS)
        wanted = [*parts.patches, *([parts.inputs.patches] if self._options[SHAPES] else [])]
        try:
            for patches in wanted:
                patches.acquire()
                self._acquired.append(patches)
        except BaseException:
            self.stop()  # the caller does not stop what failed to start
            raise


def _imported() -> Any:
    """Return Paddle if the program has imported it completely."""
    paddle = imported_module("paddle")
    return paddle if paddle is not None and _is_paddle(paddle) else None


def _is_paddle(module: Any) -> bool:
    return hasattr(module, "_C_ops") and hasattr(module, "base")


@dataclass(frozen=True, slots=True)
class _Parts:
    """State that all recordings of this process share."""

    collector: Collector
    patches: tuple[Patches, ...]
    inputs: OpInputs


@functools.cache
def _parts_of(paddle: Any) -> _Parts:
    collector = Collector(paddle.base.core)
    return _Parts(collector, (*phases(collector), lending(collector)), OpInputs(paddle))
