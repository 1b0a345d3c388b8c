"""Calls of a model: those of modules that are made outside of any other module's call.

They are recorded where the interpreter dispatches a call, behind the class's ``__call__``: that
stays what it is, for programs and for the compilers that look at it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from stepscope import _native
from stepscope.record.options import MODULES, Option
from stepscope.record.patching import Patches, PatchesWhenImported, family
from stepscope.record.source import Source

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import ClassVar

    from stepscope.record.limits import MemoryLimit
    from stepscope.record.options import RecordOptions

    Find = Callable[[], tuple[type, Callable[[], bool]] | None]

MODEL_CALLS = Option("model_calls", False, run_default=True)


class OutermostCalls:
    """Watches the modules of one framework, for all recordings that want it."""

    def __init__(self, find: Find) -> None:
        """Take what finds the class of modules, and what tells whether gradients are recorded."""
        self._find = find
        self._is_paused = False
        self.patches = Patches(self._patch)

    def pause(self) -> None:
        """Record nothing for now: something else records all calls."""
        self._is_paused = True
        self._leave_all()

    def resume(self) -> None:
        """Record again."""
        self._is_paused = False
        if self.patches.in_use:
            self._watch_all()

    def _patch(self, patches: Patches) -> None:
        if (found := self._find()) is None:
            return
        base, is_grad_enabled = found
        _native.add_call_family(base, is_grad_enabled)
        patches.on_undo(self._leave_all)
        patches.on_subclass(base, self._made)
        self._watch_all()

    def _made(self, cls: type) -> None:
        """Watch a new class. Symbolic tracing ends with making one.

        It assigns to ``__call__`` before: then Python fills the slots of all classes anew.
        """
        if self._is_paused or (found := self._find()) is None:
            return
        if _native.watch_calls(found[0]):
            _native.watch_calls(cls)
        else:
            self._watch_all()

    def _watch_all(self) -> None:
        if not self._is_paused and (found := self._find()) is not None:
            for each in family(found[0]):
                _native.watch_calls(each)

    def _leave_all(self) -> None:
        if (found := self._find()) is not None:
            for each in family(found[0]):
                _native.leave_calls(each)


class ModelCalls(Source):
    """A source of model calls: at once, or as soon as the program imports the framework."""

    when = MODEL_CALLS
    module: ClassVar[str]  # to wait for
    calls: ClassVar[OutermostCalls]

    def __init__(self, *, is_needed: bool = True) -> None:
        """Touch nothing yet; where all module calls are recorded, this is not needed."""
        self._is_needed = is_needed
        self._patches = PatchesWhenImported(self.module, self.calls.patches)

    @classmethod
    def made_for(cls, options: RecordOptions, _limit: MemoryLimit | None) -> Source:
        """Make one, which does nothing where all module calls are recorded."""
        return cls(is_needed=not options[MODULES])

    def start(self) -> None:
        """Record calls from now on, or from the framework's import on."""
        if self._is_needed:
            self._patches.start()

    def stop(self) -> None:
        """Leave the framework as it was."""
        self._patches.stop()
