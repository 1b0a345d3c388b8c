"""Monkey-patching: attributes of foreign modules that are replaced while recording."""

from __future__ import annotations

import os
from _thread import RLock
from _weakref import ref
from functools import partial

from stepscope._native import shielded
from stepscope.record.post_import import PostImport, imported_module

TYPE_CHECKING = False  # nothing here imports more than a program has that we record
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, MutableMapping
    from types import ModuleType
    from typing import Any

_MISSING = object()
# Without callbacks, as a WeakSet has them: Python drops what is raised there, a Ctrl-C included.
_all: list[ref[Patches]] = []


class _Replaced:
    def __init__(self, owner: Any, name: str, before: Any, value: Any) -> None:
        self.owner = owner
        self.name = name
        self.before = before
        self.value = value


class Patches:
    """Replacements that several recordings share: made for the first, undone after the last.

    Code that wraps a replacement in the meantime keeps calling it after the end: a replacement must
    still work then, and only pass the call on while ``in_use`` is false.
    """

    def __init__(self, apply: Callable[[Patches], None]) -> None:
        """Take the function that makes the replacements with the methods below."""
        self.in_use = False
        self._apply = apply
        self._lock = RLock()
        self._users = 0
        self._undo: list[Callable[[], None]] = []
        # Replacements that other wrappers still call.
        self._still_called: dict[tuple[int, str], _Replaced] = {}
        _all[:] = [other for other in _all if other() is not None]
        _all.append(ref(self))

    def acquire(self) -> None:
        """Make the replacements, unless another recording has."""
        with self._lock:
            if not self._users:
                try:
                    self._apply(self)
                except BaseException:
                    self._undo_all()
                    raise
                self.in_use = True
            self._users += 1

    def release(self) -> None:
        """Undo them when no other recording needs them."""
        with self._lock:
            self._users = max(self._users - 1, 0)
            if not self._users:
                self._undo_all()

    def wrap(self, owner: Any, name: str, wrapper: Callable[[Any], Any]) -> None:
        """Wrap an attribute with ``wrapper`` until the end.

        A replacement of ours that another wrapper still calls is not wrapped again.
        """
        still_called = self._still_called.pop((id(owner), name), None)
        if still_called is None or vars(owner).get(name, _MISSING) is still_called.before:
            self.replace(owner, name, wrapper(getattr(owner, name)))
        else:
            self.on_undo(partial(self._put_back, still_called))

    def replace(self, owner: Any, name: str, value: Any) -> None:
        """Set an attribute until the end."""
        replaced = _Replaced(owner, name, vars(owner).get(name, _MISSING), value)
        setattr(owner, name, value)
        self.on_undo(partial(self._put_back, replaced))

    def _put_back(self, it: _Replaced) -> None:
        if vars(it.owner).get(it.name, _MISSING) is not it.value:
            self._still_called[id(it.owner), it.name] = it
        elif it.before is _MISSING:
            delattr(it.owner, it.name)
        else:
            setattr(it.owner, it.name, it.before)

    def replace_item(self, owner: MutableMapping[str, Any], key: str, value: Any) -> None:
        """Set an existing item until the end."""
        before = owner[key]
        owner[key] = value

        def undo() -> None:
            if owner.get(key) is value:
                owner[key] = before

        self.on_undo(undo)

    def on_subclass(self, base: Any, then: Callable[[type], None]) -> None:
        """Call back for each class that is derived from ``base`` until the end."""
        own = vars(base).get("__init_subclass__")

        def init_subclass(cls: Any, /, **kwargs: Any) -> None:
            if own is None:
                super(base, cls).__init_subclass__(**kwargs)
            else:
                own.__get__(None, cls)(**kwargs)
            if self.in_use:
                then(cls)

        self.replace(base, "__init_subclass__", classmethod(init_subclass))

    def on_undo(self, undo: Callable[[], None]) -> None:
        """Register a callback for the end; the last one registered runs first."""
        with self._lock:
            self._undo.append(undo)

    def forget_in_fork(self) -> None:
        """Undo all in a forked child: nothing records there."""
        self._lock = RLock()  # a thread of the parent may hold the old one
        self._users = 0
        self._undo_all()

    def _undo_all(self) -> None:
        self.in_use = False
        while self._undo:
            self._undo.pop()()


class PatchesWhenImported:
    """One recording's use of replacements that wait for a module to be imported."""

    def __init__(self, module: str, patches: Patches) -> None:
        self._module = module
        self._patches = patches
        self._on = False
        self._holds = False
        self._hook = PostImport(module, self._imported)

    def start(self) -> None:
        """Make the replacements now, or once the program has imported the module."""
        self._on = True
        module = imported_module(self._module)
        if module is None:
            self._hook.install()
        else:
            self._imported(module)

    def stop(self) -> None:
        self._on = False
        self._hook.remove()
        if self._holds:
            self._holds = False
            self._patches.release()

    def _imported(self, _: ModuleType) -> None:
        if self._on and not self._holds:
            self._patches.acquire()
            self._holds = True


def family(base: type) -> Iterator[type]:
    """Yield a class and all that descend from it, each once."""
    seen, waiting = set(), [base]
    while waiting:
        cls = waiting.pop()
        if cls not in seen:
            seen.add(cls)
            waiting += type.__subclasses__(cls)
            yield cls


def _forget_in_fork() -> None:
    for reference in tuple(_all):
        patches = reference()
        if patches is not None:
            patches.forget_in_fork()


os.register_at_fork(after_in_child=shielded(_forget_in_fork))
