"""The string table: what is found in it without decoding is what decoding would show."""

from __future__ import annotations

import numpy as np
import pytest

from stepscope.trace import strings as tables
from stepscope.trace.strings import Strings

TEXTS = ["", "ab", "ba", "", "xabab", "b", "a", "b", "größe ab", "aab"]


@pytest.mark.parametrize("texts", [TEXTS, [item for item in TEXTS if item.isascii()]])
def test_ids_with_a_text_are_those_whose_string_contains_it(texts: list[str]) -> None:
    table = Strings.of(texts)
    for part in ("ab", "a", "bab", "b", "ß", "nowhere"):
        expected = [i for i, text in enumerate(texts) if part in text]
        assert table.ids_with(part).tolist() == expected, part


@pytest.mark.parametrize("small", [0, 100])
@pytest.mark.parametrize("texts", [TEXTS, [item for item in TEXTS if item.isascii()]])
def test_texts_of_ids(monkeypatch: pytest.MonkeyPatch, texts: list[str], small: int) -> None:
    monkeypatch.setattr(tables, "_SMALL", small)
    table = Strings.of(texts)
    ids = np.array([4, 1, 0, len(texts) - 1])
    assert table.texts_of(ids.tolist()) == [texts[i] for i in ids]
    assert table.decode_all() == texts
