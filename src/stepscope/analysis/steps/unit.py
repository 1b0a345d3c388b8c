"""What times and counts are told of: a step, a request, or the whole run."""

from __future__ import annotations

WHOLE_RUN = "run"


def unit_words(unit: str) -> str:
    """Return the words for what shares are of: ``a step``, ``the run``."""
    return "the run" if unit == WHOLE_RUN else f"a {unit}"
