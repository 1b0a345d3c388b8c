"""Checks of what users pass: an error names the argument, its value, and what to give instead."""

from __future__ import annotations

import operator
import os
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable

_LONGEST = 120  # characters of a value in an error


def shown(value: object) -> str:
    """Return a value as an error shows it: its repr on one line, or the beginning of it."""
    text = repr(value[:_LONGEST] if isinstance(value, str | bytes) else value)
    text = " ".join(text.splitlines())
    return text if len(text) <= _LONGEST else f"{text[: _LONGEST - 3]}..."


def whole(name: str, value: Any, way_out: str = "") -> int:
    """Return a whole number; raise TypeError for any other value."""
    try:
        if isinstance(value, float) and value.is_integer():
            return int(value)
        return operator.index(value)
    except TypeError:
        hint = f", {way_out}" if way_out else ""
        raise TypeError(f"{name}={shown(value)}: give a whole number{hint}") from None


def flag(name: str, value: Any) -> bool:
    """Return a truth value; texts and containers, which may be meant as False, raise TypeError."""
    if isinstance(value, str | bytes | list | tuple | dict | set) or callable(value):
        raise TypeError(f"{name}={shown(value)}: give True or False")
    return bool(value)


def number(name: str, value: Any, way_out: str) -> None:
    """Raise TypeError for a value that is no number."""
    try:
        float(value)
    except (TypeError, ValueError):
        value_is_text = True
    else:
        value_is_text = isinstance(value, str | bytes)
    if value_is_text:
        raise TypeError(f"{name}={shown(value)}: give {way_out}")


def function(name: str, value: Any, way_out: str, *, makers: tuple[str, ...] = ()) -> None:
    """Refuse what cannot be called, and a function that first has to be called itself.

    ``makers`` are the names of functions that return what is wanted.
    """
    if value is None:
        return
    if not callable(value):
        raise TypeError(f"{name}={shown(value)} is not a function; give {way_out}")
    if getattr(value, "__name__", "") in makers and _is_profilers(value):
        called = f"{value.__name__}(...)"
        raise TypeError(f"{name}={value.__name__}: call it, {name}={called}, or give {way_out}")


def _is_profilers(value: Any) -> bool:
    return str(getattr(value, "__module__", "")).partition(".")[0] in {
        "stepscope",
        "torch",
        "paddle",
    }


def takes(name: str, value: Any, count: int, way_out: str) -> None:
    """Raise TypeError for a function that is known not to take ``count`` arguments."""
    import inspect  # takes long to import, and every run imports this module

    try:
        inspect.signature(value).bind(*range(count))
    except TypeError as error:
        raise TypeError(f"{name}={shown(value)}: {error}; give {way_out}") from None
    except ValueError:  # a C function without a signature
        pass


def file_path(name: str, value: Any) -> None:
    """Raise an error for a value that cannot name a file; whether it can be written shows later."""
    if not isinstance(value, str | os.PathLike):
        raise TypeError(f"{name}={shown(value)}: give the name of a file, a str or a Path")
    text = os.fspath(value)
    if not text:
        raise ValueError(f"{name}={value!r} is empty: give the name of a file")
    if "\0" in os.fsdecode(text):
        raise ValueError(f"{name}={shown(value)}: a file name cannot hold a null character")


def folder_path(name: str, value: Any) -> None:
    """Raise TypeError for a value that cannot name a folder."""
    if not isinstance(value, str | os.PathLike):
        raise TypeError(f"{name}={shown(value)}: give the name of a folder, a str or a Path")


def text_or_none(name: str, value: Any) -> None:
    """Raise TypeError for a value that is neither a text nor None."""
    if value is not None and not isinstance(value, str):
        raise TypeError(f"{name}={shown(value)}: give a str, or None")


def several(name: str, value: Any, one: Callable[[Any], bool], example: str) -> None:
    """Raise TypeError for one item instead of a list, and for anything else."""
    if value is None or (hasattr(value, "__iter__") and not isinstance(value, str)):
        return
    if one(value):
        raise TypeError(f"{name}={shown(value)}: give a list, {name}=[{example}]")
    raise TypeError(f"{name}={shown(value)}: give a list, such as [{example}], or None")
