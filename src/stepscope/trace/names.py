"""Names that a recording gives, and by which analyses know them again."""

from __future__ import annotations

import re

_CALLS_VERSION = re.compile(r"(_v\d+|_ptsz|_ptds)+$")


def plain_call(name: str) -> str:
    """Return a call as one writes it: CUPTI's end in the version of their arguments."""
    return _CALLS_VERSION.sub("", name) if name.startswith("cu") and "(" not in name else name
