"""What a stream says that sources have noted is data: what does not fit is left out."""

from __future__ import annotations

import json
import random
import struct
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from fuzzing.values import damaged_json
from inside import run_inside
from stepscope.record.journal import pieces
from stepscope.record.read_back.recovering import captured_of, trace_of
from stepscope.record.stream.left_behind import LeftBehind
from stepscope.record.stream.places import StreamFolders
from stepscope.record.stream.processes import ProcessId
from stepscope.trace.strings import valid_value
from stepscope.trace.validate import Damage

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

_CASES = 400

# Ranges stand for what the notes are about: a call of a collective, and its work.
_PROGRAM = """
from stepscope import record_function
for name in ("c10d::allreduce_", "gloo:all_reduce", "nccl:all_reduce", "matmul dygraph"):
    with record_function(name):
        pass
"""
_CALL = {"name": "allreduce", "thread": "7", "start_ns": 0, "end_ns": 1 << 61, "number": 3}
_INPUTS = {"Input Dims": [[2, 3]], "Input type": ["float"], "Concrete Inputs": [""]}
_NOTES: Mapping[str, Sequence[Mapping[str, Any]]] = {
    "torch": [
        {"threads": [[1, 7]]},
        {"operators": [[False, "aten::mm", "", 5, 6, 1, 3, 0, False, False, 0]]},
        {"inputs": [_INPUTS]},
        {"memory": [[5, 64, 32, "cpu", 1, 32, 0]]},
    ],
    "torch.compile": [
        {"span": [0, 7, 5, False, "0/0", 9]},
        {"break": [7, 8, "a call", "model.py:3", "it cannot be traced"]},
        {"frames": {"0/0": "forward (model.py:2)"}},
        {"end_ns": 10},
    ],
    "generated code": [
        {"graph": 0, "nodes": {"linear": ["model.py(2): forward", "fc (Linear)"]}},
        {"lowered": "c.py", "nodes": {"add": ["model.py(3): forward", ""]}},
        {"printed": "d.py", "nodes": {"add": ["model.py(3): forward", ""]}},
        {"file": "c.py", "number": 0, "lines": [[4, 6, ["linear", "add"]]]},
    ],
    "torch.distributed": [
        {"rank": 0},
        {
            "group": {
                "pg_name": "0",
                "pg_desc": "default_pg",
                "backend_config": "gloo",
                "pg_size": 2,
                "ranks": [0, 1],
            }
        },
        {"bytes": 160, "modules": ["fc"]},
        {"flight": {**_CALL, "group": "0", "elements_in": 40, "dtype": "Float"}},
    ],
    "torch.distributed calls": [{**_CALL, "group": "0"}, {**_CALL, "source": 0, "is_async": True}],
    "paddle.distributed calls": [_CALL],
    "paddle": [
        {"segment": 0, "offset_ns": 5, "has_memory": True, "data": next(pieces(b"\x0a\x021.0"))},
        {"operators": ["matmul"], "inputs": [_INPUTS]},
        {"calls": next(pieces(struct.pack("4q", 7, 0, 1 << 61, 0)))},
    ],
}


@pytest.fixture(scope="module")
def remains(tmp_path_factory: pytest.TempPathFactory) -> LeftBehind:
    """Return what a process left, with notes of all sources."""
    run = tmp_path_factory.mktemp("hostile") / "run"
    done = run_inside(run, ["-c", _PROGRAM], {"sample_ns": "0"})
    folders = StreamFolders(str(run / "disk"), str(run), ProcessId.own(), is_ours=False)
    result = LeftBehind.of(folders, str(done.pid))
    text = json.dumps(_NOTES).replace('"7"', f'"{done.pid}"').replace("7,", f"{done.pid},")
    notes = {
        f"{source}/{number}": entry
        for source, entries in json.loads(text).items()
        for number, entry in enumerate(entries)
    }
    return replace(result, meta={**result.meta, **notes})


def test_the_notes_are_about_something(remains: LeftBehind) -> None:
    trace = trace_of(remains, captured_of(remains))
    names = list(trace.names())
    assert {"aten::mm", "torch.compile 0/0: forward (model.py:2)"} <= set(names)
    call = trace.slices.args.of_row(names.index("c10d::allreduce_"), trace.strings)
    assert call["Collective name"] == "allreduce"
    assert call["Seq"] == 3
    assert call["Process Group Ranks"] == "[0, 1]"
    assert trace.memory.size.tolist() == [32]
    product = trace.slices.args.of_row(names.index("aten::mm"), trace.strings)
    assert product["Input Dims"] == [[2, 3]]


@pytest.mark.parametrize("part", range(4))
def test_no_note_stops_the_reading(remains: LeftBehind, part: int) -> None:
    notes = {name: value for name, value in remains.meta.items() if "/" in name}
    text = json.dumps(notes)
    for case in range(part, _CASES, 4):
        damaged, what = damaged_json(text, random.Random(case))
        try:
            value = valid_value(json.loads(damaged))
        except (ValueError, RecursionError):
            continue
        result = value if isinstance(value, dict) else {}
        meta = {name: item for name, item in result.items() if isinstance(item, dict)}
        hostile = replace(remains, meta={**remains.meta, **meta})
        try:
            trace_of(hostile, captured_of(hostile))
        except Damage:
            pass
        except Exception as error:
            raise AssertionError(f"case {case}: {what}") from error
