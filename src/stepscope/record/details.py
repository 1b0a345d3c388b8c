"""The detail texts of recorded slices, as the args of a Trace."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import numpy as np

from stepscope.trace.event_types import TracerEventType, event_type_fragment
from stepscope.trace.fragments import pairs_of
from stepscope.trace.model import Args, IntColumn
from stepscope.trace.strings import Strings

if TYPE_CHECKING:
    from stepscope.trace.model import Bool, UInt32

_RANGE_CATEGORY = "user_annotation"
_TYPES = frozenset(map(event_type_fragment, TracerEventType))


def args_of(strings: Strings, category: UInt32, detail: UInt32) -> tuple[Strings, Args]:
    """Return the args of all slices, and the strings with those that the args need.

    The detail of a user's range is any text, or the fragment with its event type; that of
    everything else is the inside of a JSON object, whose integers become columns.
    """
    texts = list(strings)
    is_range = category == strings.ids_of({_RANGE_CATEGORY}).get(_RANGE_CATEGORY, 0)
    id_of_text: dict[str, int] = {}
    rest = np.zeros(len(detail), np.uint32)
    integers: dict[str, IntColumn] = {}

    def interned(fragment: str) -> int:
        if not fragment:
            return 0
        if fragment not in id_of_text:
            id_of_text[fragment] = len(texts)
            texts.append(fragment)
        return id_of_text[fragment]

    ranges = np.where(is_range, detail, 0)
    fragment_of = np.zeros(len(texts), np.uint32)
    for text_id in _distinct(ranges):
        text = texts[text_id]
        fragment_of[text_id] = interned(text if text in _TYPES else f'"args": {_dumps(text)}')
    rest[is_range] = fragment_of[ranges[is_range]]

    others = np.where(is_range, 0, detail)
    pairs = {int(i): pairs_of(texts[i]) for i in _distinct(others)}
    if pairs:
        fragment_of = np.zeros(len(fragment_of), np.uint32)
        for text_id, values in pairs.items():
            fragment_of[text_id] = interned(_without_integers(values))
        rest[~is_range] = fragment_of[others[~is_range]]
        integers = _integer_columns(pairs, others, len(fragment_of))
    return Strings.of(texts), Args(integers, rest)


def _distinct(ids: UInt32) -> list[int]:
    return [int(i) for i in np.unique(ids) if i]


def _dumps(value: object) -> str:
    text = json.dumps(value, ensure_ascii=False)
    # Half a character, from an escape, has no UTF-8 form: it stays an escape.
    return text if text.isascii() or _is_valid(text) else json.dumps(value)


def _is_valid(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def _is_integer(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _without_integers(pairs: dict[str, Any]) -> str:
    others = {key: value for key, value in pairs.items() if not _is_integer(value)}
    return _dumps(others)[1:-1]


def _integer_columns(
    pairs: dict[int, dict[str, Any]], detail: UInt32, texts: int
) -> dict[str, IntColumn]:
    columns: dict[str, IntColumn] = {}
    keys = {key for values in pairs.values() for key, value in values.items() if _is_integer(value)}
    for key in sorted(keys):
        value_of = np.zeros(texts, np.int64)
        has_key: Bool = np.zeros(texts, np.bool_)
        for text_id, values in pairs.items():
            if key in values and _is_integer(values[key]):
                value_of[text_id], has_key[text_id] = values[key], True
        rows = np.flatnonzero(has_key[detail])
        columns[key] = IntColumn(rows.astype(np.uint32), value_of[detail[rows]])
    return columns
