"""The non-integer arguments of an event: a JSON object without its braces."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping


def fragment_of(pairs: Mapping[str, Any]) -> str:
    """Return pairs as an ASCII fragment, which keeps texts that are not Unicode."""
    return json.dumps(pairs)[1:-1]


def pairs_of(fragment: str) -> dict[str, Any]:
    """Return the pairs of a fragment; none if Python cannot hold them.

    A fragment is valid JSON, but a number may have more digits than Python converts.
    """
    try:
        pairs: dict[str, Any] = json.loads("{" + fragment + "}", strict=False)
    except (ValueError, RecursionError):
        return {}
    return pairs
