"""Post-import hooks: a callback once the program has imported a module."""

from __future__ import annotations

import importlib.util
import sys
from importlib.abc import Loader, MetaPathFinder
from typing import TYPE_CHECKING, Any

from stepscope._native import record_function

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
        if spec is not None and spec.loader is not None:
            spec.loader = _CallingLoader(spec.loader, self._then, shown=self._shown)
        return spec


class _CallingLoader(Loader):
    def __init__(self, loader: Loader, then: Callable[[ModuleType], None], *, shown: bool) -> None:
        self._loader = loader
        self._then = then
        self._is_first = shown  # of those who wait for the module
        if isinstance(loader, _CallingLoader):
            loader._is_first = False

    def __getattr__(self, name: str) -> Any:
        return getattr(self._loader, name)

    def create_module(self, spec: ModuleSpec) -> ModuleType | None:
        return self._loader.create_module(spec)

    def exec_module(self, module: ModuleType) -> None:
        if module.__spec__ is not None:
            module.__spec__.loader = self._loader  # the module need not know of us
        if not self._is_first:
            return self._execute(module)
        with record_function(f"import {module.__name__}"):  # seconds that are not the program's
            return self._execute(module)

    def _execute(self, module: ModuleType) -> None:
        self._loader.exec_module(module)
        self._then(module)
