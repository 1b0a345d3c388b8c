"""Post-import hooks: a callback once the program has imported a module."""

from __future__ import annotations

import sys
from _thread import get_ident

from stepscope._native import importing, record_function
from stepscope.notices import notify
from stepscope.record.interrupts import HeldSignals

TYPE_CHECKING = False  # nothing here imports more than a program has that we record
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from importlib.machinery import ModuleSpec
    from types import ModuleType
    from typing import Any


_executed: set[str] = set()


def note_executed(module: str) -> None:
    """Treat a module as imported: its code has run, though the import has not returned yet."""
    _executed.add(module)


def imported_module(name: str) -> ModuleType | None:
    """Return a module whose code has run; None while its import is in progress, or before."""
    module = sys.modules.get(name)
    if module is None or name in _executed:
        return module
    is_going_on = getattr(module.__spec__, "_initializing", False)
    return None if is_going_on else module


class PostImport:
    """Watches for one module, and calls back once it has been executed."""

    def __init__(
        self, module: str, then: Callable[[ModuleType], None], *, shown: bool = True
    ) -> None:
        """Install nothing yet; ``shown`` makes the import a range of recordings."""
        self._module = module
        self._then = then
        self._shown = shown
        self._asking: set[int] = set()  # threads inside find_spec

    def install(self) -> None:
        if self not in sys.meta_path:
            sys.meta_path.insert(0, self)

    def remove(self) -> None:
        if self in sys.meta_path:
            sys.meta_path.remove(self)

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """Find the module as usual, with a loader that calls back."""
        thread = get_ident()
        if fullname != self._module or thread in self._asking:
            return None
        self._asking.add(thread)
        try:
            spec = _spec_of(fullname, path, target)
        finally:
            self._asking.discard(thread)
        loader: Any = spec.loader if spec is not None else None
        if isinstance(loader, _CallingLoader):  # another hook waits for the module, too
            loader.also(self._call_back, shown=self._shown)
        elif spec is not None and loader is not None:
            calling: Any = _CallingLoader(fullname, loader, self._call_back, shown=self._shown)
            spec.loader = calling
        return spec

    def _call_back(self, module: ModuleType) -> None:
        self.remove()  # only now: programs also look for a module without importing it
        self._then(module)


class _CallingLoader:
    """Another loader, and what to do after it.

    What the import system calls is native: the program's tracebacks show no frame of ours.
    """

    def __init__(
        self, name: str, loader: Any, then: Callable[[ModuleType], None], *, shown: bool
    ) -> None:
        self._name = name
        self._loader = loader
        self._callbacks: list[Callable[[ModuleType], None]] = []
        vars(self)["create_module"] = loader.create_module
        vars(self)["exec_module"] = importing(_Unshown(), loader, self._call_back)
        self.also(then, shown=shown)

    def also(self, then: Callable[[ModuleType], None], *, shown: bool) -> None:
        """Call another function back, too."""
        self._callbacks.append(then)
        if shown:
            scope = record_function(f"import {self._name}")  # seconds that are not the program's
            vars(self)["exec_module"] = importing(scope, self._loader, self._call_back)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._loader, name)

    def _call_back(self, module: ModuleType) -> None:
        with HeldSignals():  # a signal must not leave this half done
            self._give_back(module)
            for callback in self._callbacks:
                try:
                    callback(module)
                except Exception as error:  # the program's own import has succeeded
                    what = f"{type(error).__name__}: {error}"
                    notify(f"{module.__name__} is not recorded as it should be: {what}")

    def _give_back(self, module: ModuleType) -> None:
        """Give the module its own loader back."""
        for owner, name in ((module, "__loader__"), (module.__spec__, "loader")):
            if getattr(owner, name, None) is self:
                setattr(owner, name, self._loader)


class _Unshown:
    """A range that is not recorded."""

    def __enter__(self) -> None: ...
    def __exit__(self, *_: object) -> None: ...


def _spec_of(name: str, path: Sequence[str] | None, target: ModuleType | None) -> ModuleSpec | None:
    """Return the spec from the first finder that knows the module."""
    for finder in list(sys.meta_path):
        find = getattr(finder, "find_spec", None)
        spec: ModuleSpec | None = find(name, path, target) if find is not None else None
        if spec is not None:
            return spec
    return None
