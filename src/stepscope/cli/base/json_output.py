"""JSON for programs that read: every document names its form and the version of that."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

# A version grows when a key is renamed, removed or changes its meaning, not for new keys.
VERSIONS = {
    "answer": 2,
    **dict.fromkeys(
        ("job", "info", "sql", "diff", "gate", "history", "program", "device-peaks", "try"), 1
    ),
}


def json_text(form: str, document: Mapping[str, Any]) -> str:
    """Return a document of one of the forms of ``docs/json.md``."""
    return json.dumps(named(form, document), indent=2, default=str) + "\n"


def json_line(form: str, document: Mapping[str, Any]) -> str:
    """Return the same in one line, for documents of which there may be many."""
    return json.dumps(named(form, document), default=str) + "\n"


def named(form: str, document: Mapping[str, Any]) -> dict[str, Any]:
    """Return a document with the name and version of its form."""
    return {"schema": f"stepscope.{form}/{VERSIONS[form]}", **document}
