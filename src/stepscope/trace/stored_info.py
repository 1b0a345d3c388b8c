"""A trace's info as JSON, checked field by field when a trace is opened."""

from __future__ import annotations

import math
from dataclasses import MISSING, asdict, fields
from typing import TYPE_CHECKING, Any

from stepscope.trace.schema import Losses, TraceInfo
from stepscope.trace.strings import valid_value
from stepscope.trace.validate import LATEST_NS

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    Check = Callable[[Any], bool]

_REQUIRED = ("producer", "losses")
_INT64 = 1 << 63


class InfoDamage(Exception):  # noqa: N818 - what it is; the store makes an error of it
    """A field of the info is not what the schema states."""


def stored_info(info: TraceInfo) -> dict[str, Any]:
    """Return what ``info_of`` takes."""
    values = {member.name: getattr(info, member.name) for member in fields(TraceInfo)}
    return {**values, "losses": asdict(info.losses)}


def info_of(stored: object) -> TraceInfo:
    """Return the info in ``meta.json``, without unknown keys."""
    if not isinstance(stored, dict):
        raise InfoDamage(f"'info' is {_kind(stored)}, not an object")
    values = valid_value(stored)
    for name in _REQUIRED:
        if name not in values:
            raise InfoDamage(f"'info' has no {name!r}")
    pairs = {
        member.name: values[member.name] for member in fields(TraceInfo) if member.name in values
    }
    for name, value in pairs.items():
        fits, wanted = _FIELDS[name]
        if not fits(value):
            raise InfoDamage(f"'{name}' is {_kind(value)}, not {wanted}")
    pairs["losses"] = _losses(pairs["losses"])
    for name in ("devices", "code_folders", "libraries"):  # JSON has lists only
        pairs[name] = tuple(pairs.get(name, ()))
    return TraceInfo(**pairs)


def fitting(values: Mapping[str, Any]) -> dict[str, Any]:
    """Return the fields of a TraceInfo that match the schema."""
    return {
        name: values[name]
        for name in values.keys() & _FIELDS.keys()
        if _FIELDS[name][0](values[name])
    }


def _losses(values: dict[str, Any]) -> Losses:
    defaults = {
        member.name: member.default for member in fields(Losses) if member.default is not MISSING
    }
    pairs = {name: value for name, value in values.items() if name in defaults}
    for name, value in pairs.items():
        fits = _is_int if isinstance(defaults[name], int) else _is_text
        if not fits(value):
            raise InfoDamage(f"'{name}' of 'losses' is {_kind(value)}")
    return Losses(**pairs)


def _kind(value: object) -> str:
    names = {dict: "an object", list: "a list", str: "a text", bool: "true or false"}
    if value is None:
        return "null"
    return names.get(type(value), f"the number {str(value)[:40]}")


def _is_int(value: Any) -> bool:
    return type(value) is int and -_INT64 <= value < _INT64


def _is_time(value: Any) -> bool:
    return type(value) is int and -LATEST_NS <= value <= LATEST_NS


def _is_number(value: Any) -> bool:
    return _is_int(value) or (type(value) is float and math.isfinite(value))


def _is_int_or_none(value: Any) -> bool:
    return value is None or _is_int(value)


def _is_text(value: Any) -> bool:
    return isinstance(value, str)


def _list_of(fits: Check) -> Check:
    return lambda value: isinstance(value, list) and all(map(fits, value))


def _by_word(fits: Check) -> Check:
    return lambda value: isinstance(value, dict) and all(map(fits, value.values()))


_TEXT = (_is_text, "a text")
_INT = (_is_int, "an integer of 64 bits")
_TIME = (_is_time, "a time in ns")
_MAYBE_INT = (_is_int_or_none, "an integer of 64 bits or null")
_TEXTS = (_list_of(_is_text), "a list of texts")
_TEXT_BY_WORD = (_by_word(_is_text), "an object with texts")
_FIELDS: dict[str, tuple[Check, str]] = {
    "producer": _TEXT,
    "start_ns": _TIME,
    "end_ns": _TIME,
    "wall_offset_ns": _INT,
    "host": _TEXT,
    "pid": _INT,
    "rank": _MAYBE_INT,
    "world_size": _MAYBE_INT,
    "versions": _TEXT_BY_WORD,
    "sources": _TEXT_BY_WORD,
    "losses": (lambda value: isinstance(value, dict), "an object"),
    "overhead_ns": (_is_number, "a number"),
    "devices": (_list_of(lambda value: isinstance(value, dict)), "a list of objects"),
    "code_folders": _TEXTS,
    "parallelism": (_by_word(_is_number), "an object with numbers"),
    "libraries": _TEXTS,
    "revision": _TEXT_BY_WORD,
    "anomalies": (_by_word(_is_int), "an object with integers"),
    "user": (lambda value: isinstance(value, dict), "an object"),
}
