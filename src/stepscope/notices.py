"""Messages to the user while the program runs: notices, each shown once, and warnings."""

from __future__ import annotations

import sys

TYPE_CHECKING = False  # nothing here imports more than a program has that we record
if TYPE_CHECKING:
    from collections.abc import Callable

_PACKAGE = __name__.partition(".")[0]
_shown: set[str] = set()

listener: Callable[[str], object] | None = None
"""Called with each notice instead of printing it; set in programs that `stepscope run` records."""


def notify(line: str) -> None:
    """Print a line to standard error, once per process; nobody listening is no error."""
    if line not in _shown:
        _shown.add(line)
        if listener is not None:
            listener(line)
            return
        try:
            if sys.stderr is not None:
                print(f"stepscope: {line}", file=sys.stderr, flush=True)
        except Exception:  # closed, full, replaced, or busy while a signal came
            return


def warn_user(message: str, category: type[Warning] = UserWarning) -> None:
    """Warn at the nearest calling line outside of Stepscope."""
    import warnings

    level, frame = 1, sys._getframe()
    while frame.f_back is not None and _is_ours(frame.f_globals.get("__name__", "")):
        level, frame = level + 1, frame.f_back
    warnings.warn(message, category, stacklevel=level)


def _is_ours(module: str) -> bool:
    return module == _PACKAGE or module.startswith(f"{_PACKAGE}.")
