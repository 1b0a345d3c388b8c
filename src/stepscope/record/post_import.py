"""Post-import hooks: a callback once the program has imported a module."""

from __future__ import annotations

import importlib.util
import sys
from contextlib import nullcontext
from importlib.abc import Loader, MetaPathFinder
from typing import TYPE_CHECKING, Any

from stepscope._native import importing, record_function
from stepscope.notices import notify
from stepscope.record.interrupts import HeldSignals

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from importlib.machinery import ModuleSpec
    from types import ModuleType


class PostImport(MetaPathFinder):
    """Watches for one module, and calls back once it has been executed."""

    def __init__(
        self, module: str, then: Callable[[ModuleType], None], *, shown: bool = True
    ) -> None:
        """Watch nothing yet. Recordings show how long the import took, unless it is not shown."""
        self._module = module
        self._then = then
        self._shown = shown

    def install(self) -> None:
        """Begin to watch."""
        if self not in sys.meta_path:
            sys.meta_path.insert(0, self)

    def remove(self) -> None:
        """Watch no longer."""
        if self in sys.meta_path:
            sys.meta_path.remove(self)

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """Find the module as usual, with a loader that calls back."""
        if fullname != self._module:
            return None
        self.remove()
        spec = importlib.util.find_spec(fullname)
        if spec is not None and isinstance(spec.loader, _CallingLoader):  # somebody else waits, too
            spec.loader.also(self._then, shown=self._shown)
        elif spec is not None and spec.loader is not None:
            spec.loader = _CallingLoader(fullname, spec.loader, self._then, shown=self._shown)
        return spec


class _CallingLoader(Loader):
    """Another loader, and what to do after it.

    What the import system calls is native: the program's tracebacks show no frame of ours.
    """

    def __init__(
        self, name: str, loader: Loader, then: Callable[[ModuleType], None], *, shown: bool
    ) -> None:
        self._name = name
        self._loader = loader
        self._then: list[Callable[[ModuleType], None]] = []
        vars(self)["create_module"] = loader.create_module
        vars(self)["exec_module"] = importing(nullcontext(), loader, self._call_back)
        self.also(then, shown=shown)

    def also(self, then: Callable[[ModuleType], None], *, shown: bool) -> None:
        """Call somebody else back, too."""
        self._then.append(then)
        if shown:
            scope = record_function(f"import {self._name}")  # seconds that are not the program's
            vars(self)["exec_module"] = importing(scope, self._loader, self._call_back)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._loader, name)

    def _call_back(self, module: ModuleType) -> None:
        with HeldSignals():  # none of this is left half done
            for then in self._then:
                try:
                    then(module)
                except Exception as error:  # the program's own import has succeeded
                    what = f"{type(error).__name__}: {error}"
                    notify(f"{module.__name__} is not recorded as it should be: {what}")
