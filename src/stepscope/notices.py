"""One-line notices to the user, each shown once."""

from __future__ import annotations

import sys

_shown: set[str] = set()


def notify(line: str) -> None:
    """Print a line to standard error, the first time it comes up."""
    if line not in _shown:
        _shown.add(line)
        print(f"stepscope: {line}", file=sys.stderr, flush=True)
