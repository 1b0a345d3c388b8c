"""What is imported when it is first used: names of a package, and functions of a registry."""

from __future__ import annotations

import sys
from importlib import import_module
from operator import attrgetter
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping


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
            return import_module(f"{package}.{name}")
        if name not in home_of:
            known = {*home_of, *modules, *made, *sys.modules[package].__all__}
            raise AttributeError(_unknown(package, name, known))
        value = getattr(import_module(home_of[name]), name)
        setattr(sys.modules[package], name, value)
        return value

    def names() -> list[str]:
        module = sys.modules[package]
        return sorted({*vars(module), *module.__all__})

    return look_up, names


def loader(place: str) -> Callable[[], Any]:
    """Return a function that imports what ``module:name`` says and returns it."""

    def load() -> Any:
        module, _, name = place.partition(":")
        return attrgetter(name)(import_module(module))

    return load


def _unknown(package: str, name: str, known: Collection[str]) -> str:
    problem = f"module {package!r} has no attribute {name!r}"
    if name.startswith("_"):
        return problem
    from difflib import get_close_matches

    meant = get_close_matches(name, sorted(known), 1)
    if meant:
        return f"{problem}; did you mean {meant[0]!r}?"
    return f"{problem}; it has {', '.join(sorted(known))}" if len(known) < 5 else problem
