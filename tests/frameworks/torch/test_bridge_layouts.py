"""The table of where torch has what the bridges touch, against the torch that is installed."""

from __future__ import annotations

import json
import shutil
import sys
from pathlib import Path

import pytest

pytest.importorskip("torch")
pytest.importorskip("elftools")

import torch

from stepscope.frameworks.torch.bridge.families import FAMILIES, family_of

sys.path.insert(0, str(Path(__file__).parents[3] / "tools"))

import torch_layouts

pytestmark = pytest.mark.slow

TABLE = json.loads(torch_layouts.TABLE.read_text())


def test_the_table_has_every_bridge() -> None:
    assert set(TABLE["operators"]) == {family.name for family in FAMILIES}
    assert set(TABLE["cuda_memory"]) == {minor for family in FAMILIES for minor in family.minors}
    for layout in TABLE["operators"].values():
        assert set(layout) == set(torch_layouts.OPERATORS)


def test_families_differ() -> None:
    old, middle, new = (TABLE["operators"][family.name] for family in FAMILIES)
    assert old["c10::IValue::Tag"] != middle["c10::IValue::Tag"] == new["c10::IValue::Tag"]
    assert old["c10::TensorImpl"] != middle["c10::TensorImpl"] != new["c10::TensorImpl"]


@pytest.mark.slow
@pytest.mark.skipif(not shutil.which("g++"), reason="no compiler that tells of classes")
def test_the_installed_torch_is_as_the_table_says() -> None:
    family = family_of(".".join(torch.__version__.split(".")[:2]))
    assert family is not None
    headers = Path(torch.__file__).parent / "include"
    layouts = torch_layouts.layouts_of(headers, None)["operators"]
    stated = TABLE["operators"][family.name]
    assert list(torch_layouts.differences(stated, layouts)) == []
    other = next(candidate for candidate in FAMILIES if candidate is not family)
    assert list(torch_layouts.differences(TABLE["operators"][other.name], layouts)) != []
