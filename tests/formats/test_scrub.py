"""A scrubbed trace names no host, no user and no file of the user's, and is the same otherwise."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING

import numpy as np

from made_trace import Call, trace_of_calls
from stepscope import read_trace
from stepscope.cli import main
from stepscope.formats.scrub import scrub

if TYPE_CHECKING:
    from pathlib import Path

    import pytest

    from stepscope.trace.model import Trace

PRIVATE = ("ada", "lovelace", "engine-7", "secret project", "difference", "analytical", "TOKEN")


def private_trace() -> Trace:
    own = "/home/ada/secret project/difference.py(12): Engine.turn"
    library = "/home/ada/.venv/lib/python3.11/site-packages/torch/nn/functional.py(9): linear"
    calls = [
        Call("aten::mm", 0, 10, stack=("torch/functional.py(1): einsum", own)),
        Call("run /home/ada/analytical/run.py --to /Users/lovelace/out", 20, 30, stack=(library,)),
        Call("GET /predict", 40, 50),
        Call("difference.py", 60, 70),
        Call("on engine-7.example.org as ada", 80, 90),
    ]
    return trace_of_calls(
        calls,
        host="engine-7.example.org",
        code_folders=("/home/ada/secret project/",),
        sources={"torch": "operators, as /home/ada/secret project/difference.py says"},
        devices=({"name": "H200", "uuid": "GPU-engine-7"},),
        user={"command": "TOKEN=1 train", "schemaVersion": 1, "host_name": "engine-7"},
    )


def test_nothing_private_is_left(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    private_trace().save(tmp_path / "mine.stepscope")
    assert main(["scrub", str(tmp_path / "mine.stepscope")]) == 0
    assert "without the names of" in capsys.readouterr().err
    clean = read_trace(tmp_path / "mine-scrubbed.stepscope")
    rest = json.dumps([*clean.strings.decode_all(), repr(clean.info), repr(clean.tracks)])
    assert [word for word in PRIVATE if word in rest] == []


def test_what_a_trace_is_about_stays() -> None:
    trace = private_trace()
    clean = scrub(trace).trace
    names = [re.sub(r"file\d+", "file", name) for name in clean.names()]
    assert names == [
        "aten::mm",
        "run file.py --to file",
        "GET /predict",
        "file.py",
        "on host as user",
    ]
    frames = {text for text in clean.strings.decode_all() if "): " in text}
    assert {"torch/functional.py(1): einsum", "torch/nn/functional.py(9): linear"} < frames
    assert [frame.partition("(")[2] for frame in frames if frame.startswith("file")] == [
        "12): Engine.turn"
    ]
    for column in ("start_ns", "duration_ns", "kind", "stack"):
        before, after = getattr(trace.slices, column), getattr(clean.slices, column)
        np.testing.assert_array_equal(before, after)
    assert clean.info.devices == ({"name": "H200"},)
    assert clean.info.user == {"schemaVersion": 1}
