"""What is imported when it is first used: names of a package, and functions of a registry."""

from __future__ import annotations

import sys
from operator import attrgetter

TYPE_CHECKING = False  # nothing here imports more than a program has that we record
if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping
    from typing import Any


def lazy_names(
    package: str,
    homes: Mapping[str, str] | None = None,
    modules: Collection[str] = (),
    made: Mapping[str, Callable[[], Any]] | None = None,
) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """Return ``__getattr__`` and ``__dir__`` of a package whose names are imported when used.

    ``homes`` says which names each module has, with spaces between them. ``modules`` are modules of
    the package itself. ``made`` has what is asked for anew each time. Type checkers are told of the
    same names by imports that only they see, and by ``__all__``.
    """
    home_of = {name: home for home, names in (homes or {}).items() for name in names.split()}
    made = made or {}

    def look_up(name: str) -> Any:
        if name in made:
            return made[name]()
        if name in modules:
            return _imported(f"{package}.{name}")
        if name not in home_of:
            names_there = {*home_of, *modules, *made, *sys.modules[package].__all__}
            raise _UnknownNameError(package, name, names_there)
        value = getattr(_imported(home_of[name]), name)
        setattr(sys.modules[package], name, value)
        return value

    def names() -> list[str]:
        module = sys.modules[package]
        return sorted({*vars(module), *module.__all__})

    return look_up, names


def loader(place: str) -> Callable[[], Any]:
    """Return a function that imports what ``module:name`` says and returns it."""

    return lambda: named(place)


def named(place: str) -> Any:
    """Import what ``module:name`` says, or a whole ``module``, and return it."""
    module, _, name = place.partition(":")
    return attrgetter(name)(_imported(module)) if name else _imported(module)


def _imported(module: str) -> Any:
    """Import a module as importlib.import_module does, which the program may not have."""
    __import__(module)
    return sys.modules[module]


class _UnknownNameError(AttributeError):
    """A package has no such name; what is meant is sought only if somebody reads the message."""

    def __init__(self, package: str, name: str, names_there: Collection[str]) -> None:
        super().__init__(package, name)
        self.name = name
        self._package = package
        self._names_there = names_there

    def __str__(self) -> str:
        problem = f"module {self._package!r} has no attribute {self.name!r}"
        if not self.name or self.name.startswith("_"):
            return problem
        from difflib import get_close_matches

        meant = get_close_matches(self.name, sorted(self._names_there), 1)
        if meant:
            return f"{problem}; did you mean {meant[0]!r}?"
        few = len(self._names_there) < 5
        return f"{problem}; it has {', '.join(sorted(self._names_there))}" if few else problem
