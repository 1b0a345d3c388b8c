"""Calls of a model's modules: of the models themselves, and of their parts by qualified name.

They are recorded where the interpreter dispatches a call, behind the class's ``__call__``: that
stays what it is, for programs and for the compilers that look at it.
"""

from __future__ import annotations

import sys
import weakref
from typing import TYPE_CHECKING, Any, ClassVar, Protocol

from stepscope import _native
from stepscope._native import begin_slice, end_slice
from stepscope.record.options import MODEL_CALLS, MODULES
from stepscope.record.patching import Patches, PatchesWhenImported, family
from stepscope.record.phase_ranges import RANGE_KIND
from stepscope.record.source import Burden, Source
from stepscope.trace.fragments import fragment_of
from stepscope.trace.keys import OWN_PARAMETERS, PARAMETERS

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    Entry = tuple[weakref.ref[Any], str, str]
    Find = Callable[[], tuple[type, Callable[[], bool]] | None]


_MODELS_AT_FIRST = 16


class Anatomy(Protocol):
    """How a framework's models are looked at."""

    def named_modules(self, model: Any) -> Iterable[tuple[str, Any]]:
        """Return the model, by an empty name, and all in it, each once, by its first name."""

    def parameter_sizes(self, module: Any, *, of_all_below: bool) -> Iterable[int | None]:
        """Return how many numbers each parameter holds; None for one that is not known yet."""


class Names(dict[int, "Entry"]):
    """The modules of one model by id: a weak reference, the name, and a JSON fragment.

    The weak reference shows whether the id means another object by now.
    """

    def __init__(self, root: Any, anatomy: Anatomy) -> None:
        self._anatomy = anatomy
        self._root = weakref.ref(root)
        self.looked_again = False  # during the current call of the model
        self.is_settled = True  # no module waits for its first input to know its parameters
        self._describe(root, "")

    def learn(self, module: Any) -> Entry:
        """Describe a module that is called within the model and was not part of it before.

        It may have been added since. Else it is known to nobody but the caller, as when it is made
        for one call; then it goes by its class. The model is searched once a call at most: the
        caller may make thousands.
        """
        root = self._root()
        if root is not None and not self.looked_again:
            self.looked_again = True
            if self._has(root, module):
                self._describe(root, "")
        entry = self.get(id(module))
        if entry is None or entry[0]() is not module:
            self._describe(module, f"{type(module).__name__}.")
        return self[id(module)]

    def _describe(self, model: Any, prefix: str) -> None:
        self._add(model, type(model).__name__, {})  # stays if the rest fails
        handle = begin_slice(RANGE_KIND, "stepscope: name the modules", "")  # not torch.profiler's
        try:
            for name, module in self._anatomy.named_modules(model):
                counts = self._parameters(module)
                self._add(module, prefix + name if name else type(module).__name__, counts)
        except Exception:  # the model's own code may fail; its call must go on
            return
        finally:
            end_slice(handle)

    def _add(self, module: Any, name: str, counts: dict[str, int]) -> None:
        fragment = fragment_of({"Class": type(module).__name__, **counts})
        self[id(module)] = (weakref.ref(module), name, fragment)

    def _has(self, model: Any, module: Any) -> bool:
        return any(other is module for _, other in self._anatomy.named_modules(model))

    def _parameters(self, module: Any) -> dict[str, int]:
        return {
            PARAMETERS: self._count(module, of_all_below=True),
            OWN_PARAMETERS: self._count(module, of_all_below=False),
        }

    def _count(self, module: Any, *, of_all_below: bool) -> int:
        sizes = list(self._anatomy.parameter_sizes(module, of_all_below=of_all_below))
        self.is_settled &= None not in sizes
        return sum(filter(None, sizes))


class Models:
    """The names of every model that is called while something records."""

    def __init__(self, anatomy: Anatomy) -> None:
        self._anatomy = anatomy
        self._names: dict[int, tuple[weakref.ref[Any], Names]] = {}
        self._most = _MODELS_AT_FIRST  # the number of models at which dead ones are removed

    def forget(self) -> None:
        """Drop all names, so that they are looked up again."""
        self._names.clear()

    def names_of(self, root: Any) -> Names:
        """Return the names within a model that is about to be called."""
        entry = self._names.get(id(root))
        if entry is not None and entry[0]() is root and entry[1].is_settled:
            entry[1].looked_again = False
            return entry[1]
        if len(self._names) >= self._most:
            self._forget_the_dead()
        names = Names(root, self._anatomy)
        self._names[id(root)] = (weakref.ref(root), names)
        return names

    def _forget_the_dead(self) -> None:
        # Not in a callback of the reference: Python drops what is raised there, a Ctrl-C included.
        living = {key: entry for key, entry in self._names.items() if entry[0]() is not None}
        self._names = living
        self._most = max(2 * len(living), _MODELS_AT_FIRST)


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
        """While these are acquired, listeners get the calls (``_native.tell_calls``)."""
        self.recorded = Patches(self._record_models)
        """While these are acquired, too, calls of models are recorded."""
        self.named = Patches(self._name)
        """While these are acquired, too, calls of the models' parts are recorded."""

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


class _PatchedCalls(Source):
    """Records calls at once, or as soon as the program imports the framework."""

    module: ClassVar[str]  # the framework's module
    calls: ClassVar[ModuleCalls]

    def __init__(self) -> None:
        self._patches = [PatchesWhenImported(self.module, patches) for patches in self._wanted()]

    def _wanted(self) -> list[Patches]:
        return [self.calls.watched, self.calls.recorded]

    def start(self) -> None:
        for patches in self._patches:
            patches.start()

    def stop(self) -> None:
        for patches in reversed(self._patches):
            patches.stop()


class ModelCalls(_PatchedCalls):
    """A source of model calls."""

    when = MODEL_CALLS


class AllModuleCalls(_PatchedCalls):
    """A source of all module calls, by their names within the model."""

    burden = Burden.MODULES
    when = MODULES
    of_what: ClassVar[str]

    def _wanted(self) -> list[Patches]:
        return [*super()._wanted(), self.calls.named]

    def start(self) -> None:
        self.calls.models.forget()  # they may have changed since the last recording
        super().start()

    def describe(self) -> str:
        is_imported = self.module in sys.modules
        return f"calls of {self.of_what}, by qualified name" if is_imported else ""
