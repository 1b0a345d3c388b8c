"""What torch.profiler says where it refuses something, and the memory timeline that it writes."""

from __future__ import annotations

import gzip
import json
import warnings
from typing import TYPE_CHECKING, Any

import pytest
import torch
from torch.profiler import ProfilerAction, profile

if TYPE_CHECKING:
    from pathlib import Path

    from conftest import Both

REFUSED = {
    "events": ("Profiler must be initialized before accessing events", ()),
    "key_averages": ("Profiler must be initialized before getting key averages", ()),
    "stop": ("Profiler must be initialized before stopping trace", ()),
    "export_chrome_trace": ("Profiler must be initialized before exporting chrome trace", ("x",)),
    "export_stacks": ("Profiler must be initialized before exporting stacks", ("x",)),
}


def test_results_before_there_are_any(both: Both) -> None:
    def program() -> None:
        for name, (words, args) in REFUSED.items():
            with pytest.raises(AssertionError, match=words):
                getattr(profile(), name)(*args)
        with pytest.raises(ValueError, match="required for memory profiling"):
            profile().export_memory_timeline("x.json")
        with profile() as prof:
            torch.ones(1)
        with pytest.raises(AssertionError, match=r"export_stacks\(\) requires with_stack=True"):
            prof.export_stacks("x")

    both(program)


def test_a_cycle_that_is_cut_short(both: Both) -> None:
    actions = [ProfilerAction.WARMUP, ProfilerAction.NONE]

    def program() -> Any:
        words = "Incorrect schedule: WARMUP followed by NONE"
        with pytest.warns(UserWarning, match=words), profile(schedule=actions.__getitem__) as prof:
            prof.step()
        return list(prof.events() or ())

    assert both(program) == []


def test_the_memory_timeline(both: Both, tmp_path: Path) -> None:
    model = torch.nn.Linear(4, 4)

    def program() -> Any:
        model.zero_grad()
        with profile(profile_memory=True, record_shapes=True, with_stack=True) as prof:
            model(torch.ones(2, 4)).sum().backward()
        plain, raw = tmp_path / "a.json", tmp_path / "a.raw.json.gz"
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", FutureWarning)
            prof.export_memory_timeline(str(plain), device="cpu")
            prof.export_memory_timeline(str(raw), device="cpu")
        moves = [move[1:] for move in json.loads(gzip.decompress(raw.read_bytes()))]
        return json.loads(plain.read_text())[1], sorted(moves)

    both(program)
