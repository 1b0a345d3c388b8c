"""A pickle of plain values is read without Python's unpickler; anything else is refused."""

from __future__ import annotations

import math
import pickle
import pickletools
import random
from pathlib import Path
from typing import Any

import pytest

from fuzzing.values import damaged_bytes
from stepscope.trace.plain_pickle import PlainPickleError, plain_unpickled

VALUE = {
    "entries": [{"id": 1, "sizes": [[2, 3], []], "group": ("0", "default"), "share": 0.5}],
    "none": None,
    "flags": (True, False),
    "text": "ünïcode" * 50,
    "large": 2**200,
    "negative": -7,
    "bytes": b"\x00\xff",
    3: (1, 2, 3, 4),
}


@pytest.mark.parametrize("protocol", [2, 3, 4, 5])
def test_plain_values_are_read(protocol: int) -> None:
    value = {k: v for k, v in VALUE.items() if k != "bytes"} if protocol == 2 else VALUE
    assert plain_unpickled(pickle.dumps(value, protocol)) == value
    assert plain_unpickled(pickletools.optimize(pickle.dumps(value, protocol))) == value


@pytest.mark.parametrize("value", [math.sqrt, Path("x"), {1, 2}, object(), range(3), 1j])
def test_other_values_are_refused(value: object) -> None:
    with pytest.raises(PlainPickleError, match="which numbers, texts and lists do not need"):
        plain_unpickled(pickle.dumps(value))


def test_values_that_refer_to_each_other_take_no_time() -> None:
    nested: Any = ("x",)
    for _ in range(200):
        nested = (nested, nested)
    with pytest.raises(PlainPickleError, match="keys"):
        plain_unpickled(b"\x80\x04}" + pickle.dumps(nested)[2:-1] + b"Ns.")
    assert plain_unpickled(pickle.dumps(nested)) is not None


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b".",
        b"\x80\x04(.",
        b"]a.",
        b"}(K\x01u.",
        b"h\x01.",
        b"r\xff\xff\xff\xff.",
        b"]r\xff\xff\xff\xff.extra",
        b"\x8e" + b"\xff" * 8,
    ],
)
def test_damaged_pickles_are_refused_or_read(data: bytes) -> None:
    try:
        plain_unpickled(data)
    except PlainPickleError as error:
        assert len(str(error)) < 300


def test_any_bytes_end_in_a_value_or_an_error() -> None:
    rng = random.Random("plain pickles")
    whole = pickle.dumps(VALUE)
    for _ in range(300):
        try:
            plain_unpickled(damaged_bytes(whole, rng))
        except PlainPickleError:
            continue
