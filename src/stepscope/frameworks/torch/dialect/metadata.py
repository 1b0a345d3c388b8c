"""The user's metadata of a profiler's traces."""

from __future__ import annotations

import json
from typing import Any

from stepscope.arguments import shown
from stepscope.trace.strings import valid_value


class Metadata:
    """Metadata of a profiler: kept when given, and written with every export from then on."""

    def __init__(self) -> None:
        self._metadata: dict[str, Any] = {}
        self._presets: dict[str, str] = {}

    def add_metadata(self, key: str, value: str) -> None:
        """Keep a text with the trace."""
        _check_key("add_metadata", key)
        if not isinstance(value, str):
            raise TypeError(
                f"add_metadata({key!r}, {shown(value)}): give a str; add_metadata_json(key, "
                "json.dumps(value)) keeps other values"
            )
        self._metadata[valid_value(key)] = valid_value(value)

    def add_metadata_json(self, key: str, value: str) -> None:
        """Keep a JSON value, given as text, with the trace."""
        _check_key("add_metadata_json", key)
        if not isinstance(value, str):
            raise TypeError(
                f"add_metadata_json({key!r}, {shown(value)}): give JSON as a str, json.dumps(value)"
            )
        try:
            parsed = json.loads(value, parse_constant=_refuse_constant)
        except ValueError as error:
            raise ValueError(
                f"add_metadata_json({key!r}, ...) needs valid JSON, not {value!r}: {error}; "
                "use add_metadata for plain text"
            ) from None
        self._metadata[valid_value(key)] = valid_value(parsed)

    def preset_metadata_json(self, key: str, value: str) -> None:
        """Keep a JSON value with every trace of this profiler."""
        self.add_metadata_json(key, value)
        self._presets[key] = value

    @property
    def preset_metadata(self) -> dict[str, str]:
        """Return the values given to preset_metadata_json(); users may add to them."""
        return self._presets


def _check_key(function: str, key: Any) -> None:
    if not isinstance(key, str):
        raise TypeError(f"{function}({shown(key)}, ...): give a str as the key")


def _refuse_constant(word: str) -> None:
    raise ValueError(f"{word} is not JSON")
