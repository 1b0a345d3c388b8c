"""The arguments of an event that are no integers: a JSON object without its braces."""

from __future__ import annotations

import json
from typing import Any


def pairs_of(fragment: str) -> dict[str, Any]:
    """Return the pairs of a fragment; none where Python cannot hold them.

    A trace holds fragments that are JSON, but a number in one may have more digits than Python
    converts.
    """
    try:
        pairs: dict[str, Any] = json.loads("{" + fragment + "}", strict=False)
    except (ValueError, RecursionError):
        return {}
    return pairs
