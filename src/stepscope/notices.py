"""Messages to the user while the program runs: notices, each shown once, and warnings."""

from __future__ import annotations

import sys
import warnings
from contextlib import suppress

_PACKAGE = __name__.partition(".")[0]
_shown: set[str] = set()


def notify(line: str) -> None:
    """Print a line to standard error, once per process; nobody listening is no error."""
    if line not in _shown:
        _shown.add(line)
        with suppress(Exception):  # closed, full, replaced, or busy while a signal came
            if sys.stderr is not None:
                print(f"stepscope: {line}", file=sys.stderr, flush=True)


def warn_user(message: str, category: type[Warning] = UserWarning) -> None:
    """Warn at the nearest calling line outside of Stepscope."""
    level, frame = 1, sys._getframe()
    while frame.f_back is not None and _is_ours(frame.f_globals.get("__name__", "")):
        level, frame = level + 1, frame.f_back
    warnings.warn(message, category, stacklevel=level)


def _is_ours(module: str) -> bool:
    return module == _PACKAGE or module.startswith(f"{_PACKAGE}.")
