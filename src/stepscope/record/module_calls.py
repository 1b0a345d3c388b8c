"""Calls of a model's modules: those made outside of any other, and those within, by their names.

They are recorded where the interpreter dispatches a call, behind the class's ``__call__``: that
stays what it is, for programs and for the compilers that look at it.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, ClassVar

from stepscope import _native
from stepscope.record.module_names import Models
from stepscope.record.options import MODEL_CALLS, MODULES
from stepscope.record.patching import Patches, PatchesWhenImported, family
from stepscope.record.source import Burden, Source

if TYPE_CHECKING:
    from collections.abc import Callable

    from stepscope.record.module_names import Anatomy

    Find = Callable[[], tuple[type, Callable[[], bool]] | None]


class ModuleCalls:
    """The modules of one framework, for all recordings that want their calls."""

    def __init__(self, find: Find, anatomy: Anatomy, *, tells_input: bool = False) -> None:
        """Take what finds the class of modules and what tells whether gradients are recorded.

        ``tells_input``: calls have the dtype of their first input, where asking a tensor for it
        runs no code of the program's.
        """
        self._find = find
        self._tells_input = tells_input
        self.models = Models(anatomy)
        self.watched = Patches(self._watch)
        """While these hold, calls are seen, and told to who listens (``_native.tell_calls``).

        What is recorded of them is up to those below.
        """
        self.recorded = Patches(self._record_models)
        """While these hold, calls of models are recorded."""
        self.named = Patches(self._name)
        """While these hold, too, those of their parts are."""

    def in_phase(self, phase: str, is_marked: Callable[[], bool]) -> Patches:
        """Return patches that make each call a range of a phase, unless something else marks it."""

        def mark(patches: Patches) -> None:
            if (base_and_mode := self._find()) is not None:
                patches.on_undo(lambda: _native.mark_calls(base_and_mode[0], None, None))
                _native.mark_calls(base_and_mode[0], phase, is_marked)

        return Patches(mark)

    def _watch(self, patches: Patches) -> None:
        if (base_and_mode := self._find()) is None:
            return
        base, is_grad_enabled = base_and_mode
        _native.add_call_family(base, is_grad_enabled, self._tells_input)

        def watch_all() -> None:
            for cls in family(base):
                _native.watch_calls(cls)

        def leave_all() -> None:
            for cls in family(base):
                _native.leave_calls(cls)

        def made(cls: type) -> None:
            # Symbolic tracing assigns to __call__, on which Python fills the slots of all classes
            # anew. It ends with making a class.
            if _native.watch_calls(base):
                _native.watch_calls(cls)
            else:
                watch_all()

        patches.on_undo(leave_all)
        patches.on_subclass(base, made)
        watch_all()

    def _record_models(self, patches: Patches) -> None:
        if (base_and_mode := self._find()) is not None:
            patches.on_undo(lambda: _native.record_calls(base_and_mode[0], False))
            _native.record_calls(base_and_mode[0], True)

    def _name(self, patches: Patches) -> None:
        if (base_and_mode := self._find()) is not None:
            patches.on_undo(lambda: _native.name_calls(base_and_mode[0], None))
            _native.name_calls(base_and_mode[0], self.models.names_of)


class ModelCalls(Source):
    """A source of model calls: at once, or as soon as the program imports the framework."""

    when = MODEL_CALLS
    module: ClassVar[str]  # to wait for
    calls: ClassVar[ModuleCalls]

    def __init__(self) -> None:
        wanted = (self.calls.watched, self.calls.recorded)
        self._patches = [PatchesWhenImported(self.module, each) for each in wanted]

    def start(self) -> None:
        """Record calls from now on, or from the framework's import on."""
        for each in self._patches:
            each.start()

    def stop(self) -> None:
        for each in reversed(self._patches):
            each.stop()


class AllModuleCalls(Source):
    """A source of all module calls, by their names within the model."""

    burden = Burden.MODULES
    when = MODULES
    module: ClassVar[str]
    calls: ClassVar[ModuleCalls]
    of_what: ClassVar[str]

    def __init__(self) -> None:
        wanted = (self.calls.watched, self.calls.recorded, self.calls.named)
        self._patches = [PatchesWhenImported(self.module, each) for each in wanted]

    def start(self) -> None:
        self.calls.models.forget()  # they may have changed since the last recording
        for each in self._patches:
            each.start()

    def stop(self) -> None:
        for each in reversed(self._patches):
            each.stop()

    def describe(self) -> str:
        is_imported = self.module in sys.modules
        return f"calls of {self.of_what}, by qualified name" if is_imported else ""
