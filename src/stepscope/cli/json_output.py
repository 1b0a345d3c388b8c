"""JSON for programs that read: every document names its form and the version of that."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping

# A number grows when a key is renamed, removed or gets another meaning; new keys do not change it.
VERSIONS = {"answer": 1, "info": 1, "device-peaks": 1, "sql": 1}


def json_text(form: str, told: Mapping[str, Any]) -> str:
    """Return a document of one of the forms of ``docs/json.md``."""
    named = {"schema": f"stepscope.{form}/{VERSIONS[form]}", **told}
    return json.dumps(named, indent=2, default=str) + "\n"
