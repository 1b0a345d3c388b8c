"""``docs/api.md`` names every public object; ``tools/api_reference.py`` writes it."""

from __future__ import annotations

import inspect
import sys
from importlib import import_module
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
sys.path.append(str(ROOT / "tools"))

from api_reference import MODULES, PAGE, public_names  # noqa: E402 - from that folder


@pytest.mark.parametrize("name", MODULES)
def test_every_public_object_is_described(name: str) -> None:
    page = PAGE.read_text(encoding="utf-8")
    module = import_module(name)
    missing = [
        public for public in public_names(module) if f"\n### `{name}.{public}`\n" not in page
    ]
    assert not missing, "run tools/api_reference.py"
    silent = [
        public for public in public_names(module) if not inspect.getdoc(getattr(module, public))
    ]
    assert not silent
