"""Classes with a library's base class, which is imported when the first object is made."""

from __future__ import annotations

import sys
from functools import cache
from importlib import import_module
from typing import Any, ClassVar, Self

from stepscope.errors import StepscopeError


class Late:
    """Adds a library's classes as bases when the first object is made, not before.

    ``homes`` are the modules that may define the base, under the name ``base``: copies of a library
    under several names. An object derives from the bases of all that are imported by then; if none
    is, from that of the first that can be.
    """

    homes: ClassVar[tuple[str, ...]]
    base: ClassVar[str]
    library: ClassVar[str]  # what to install

    def __new__(cls, *_args: Any, **_options: Any) -> Self:
        return object.__new__(cls._bound())

    @classmethod
    def ready(cls) -> type[Self]:
        """Return the class with its base if the library is already imported."""
        return cls._bound() if any(home in sys.modules for home in cls.homes) else cls

    @classmethod
    def _bound(cls) -> type[Self]:
        bases = cls._bases()
        made: type[Self] = cls if issubclass(cls, bases) else _derived(cls, bases)  # type: ignore[arg-type]
        return made

    @classmethod
    def _bases(cls) -> tuple[type, ...]:
        loaded = [home for home in cls.homes if home in sys.modules]
        for home in loaded or cls.homes:
            try:
                import_module(home)
            except ModuleNotFoundError as error:
                if error.name is None or not home.startswith(error.name):
                    raise  # it is there, and misses something itself
                continue
            loaded = loaded or [home]
            break
        if not loaded:
            raise StepscopeError(
                f"{cls.__name__} needs {cls.library}, which is not installed: "
                f"pip install {cls.library}"
            )
        return tuple(getattr(sys.modules[home], cls.base) for home in loaded)

    def __reduce__(self) -> tuple[Any, ...]:
        """Support pickling: the derived class is found by its plain one."""
        plain = next(base for base in type(self).__mro__ if "_is_derived" not in vars(base))
        return _restored, (plain, self.__getstate__())

    def __getstate__(self) -> dict[str, Any]:
        """Return the state to pickle."""
        return vars(self).copy()


@cache
def _derived(cls: type[Any], bases: tuple[type, ...]) -> type[Any]:
    """Return the class with its bases; cached, so that objects share one class."""
    body = {"__module__": cls.__module__, "__qualname__": cls.__qualname__, "__doc__": cls.__doc__}
    return type(bases[0])(cls.__name__, (cls, *bases), {**body, "_is_derived": True})


def _restored(plain: type[Late], state: dict[str, Any]) -> Any:
    made = plain.__new__(plain)
    vars(made).update(state)
    return made
