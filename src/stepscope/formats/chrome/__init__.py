"""Chrome and Kineto JSON, read and written; other tools' dialects of it are registered here."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Protocol

from stepscope.registry import Registry

if TYPE_CHECKING:
    from pathlib import Path

    from stepscope.trace.model import Trace

Columns = Mapping[str, Any]  # what _native.ChromeReader.finish returns


class ChromeDialect(Protocol):
    """A tool's dialect of Chrome JSON with more than plain events."""

    def claims(self, columns: Columns) -> bool:
        """Tell whether a file is in this dialect."""

    def repaired(self, path: Path, columns: Columns) -> Columns:
        """Return the file's columns, read again if it is not valid JSON."""

    def trace(self, columns: Columns) -> Trace:
        """Return the trace."""


DIALECTS: Registry[Callable[[], ChromeDialect]] = Registry()
