"""Records as CUPTI lays them out, alone and beside another tool, from a library that stands in."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from c_stubs import compile_library
from command_line import python

STUB = Path(__file__).with_name("cupti_stub.c")
PROGRAM = """\
import ctypes, json, sys
from stepscope import _native

path, beside = sys.argv[1], sys.argv[2] == "beside"
_native.load_cupti(path)
stub = ctypes.CDLL(path)
told = {}
try:
    since = _native.start_cuda(0, False, 0.0, 7, beside=beside)
except RuntimeError as error:
    told["refused"] = str(error)
else:
    told["while"] = stub.stub_subscribed(), stub.stub_asked_alone()
    stub.cuptiActivityFlushAll(0)  # waits from the end on are our own, and left out
    found = _native.stop_cuda(since)
    told["names"] = [name.decode() for name in found["names"]]
    for key in ("kind", "name", "correlation", "device", "context", "stream", "shape", "bytes",
                "graph_node", "duration_ns"):
        told[key] = found[key].tolist()
    told["clock"] = bool((found["start_ns"] <= _native.now_ns()).all())
told["after"] = stub.stub_subscribed()
print(json.dumps(told))
"""
WATCHING = """\
import ctypes, json, sys
from stepscope import _native
from stepscope.frameworks.cuda.activity import leave_captures, watch_captures

path = sys.argv[1]
_native.load_cupti(path)
stub = ctypes.CDLL(path)
told = {"watches": watch_captures(), "while": stub.stub_subscribed()}
if told["watches"]:
    leave_captures()
told["after"] = stub.stub_subscribed()
print(json.dumps(told))
"""
NOTHING = 0xFFFFFFFF


def output_of(tmp_path: Path, how: str, *words: str, program: str = PROGRAM) -> dict[str, Any]:
    """Run a program with a CUPTI that is built with some words; return what it tells."""
    library = tmp_path / "libcupti.so"
    compile_library(STUB, library, *words)
    done = python("-c", program, str(library), how, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    output: dict[str, Any] = json.loads(done.stdout)
    return output


@pytest.mark.parametrize("how", ["alone", "beside"])
def test_every_kind_of_record(tmp_path: Path, how: str) -> None:
    output = output_of(tmp_path, how)
    assert output["while"] == ([1, 0] if how == "beside" else [0, 1])
    assert output["after"] == 0
    names = [output["names"][i] for i in output["name"]]
    assert dict(zip(output["kind"], names, strict=True)) == {
        0: "some_kernel",
        5: "Stream Wait Event",
        6: "CUDA event",
        7: "Allocate (Device)",
        8: "Memory pool trimmed",
    }
    rows = {kind: i for i, kind in enumerate(output["kind"])}
    keys = ("correlation", "stream", "shape", "bytes", "graph_node")

    def of(kind: int) -> tuple[int, ...]:
        return tuple(output[key][rows[kind]] for key in keys)

    assert of(0)[:2] == (11, 7)
    assert of(5) == (13, 9, 33, 70, 0)
    assert of(6) == (12, 7, 33, 70, 0)
    assert of(7) == (14, NOTHING, 0, 4096, 0x7000)
    assert of(8) == (15, NOTHING, 0, 1 << 20, 0x8000)
    assert output["kind"].count(5) == 1
    assert [output["device"][rows[kind]] for kind in (0, 6, 7, 8)] == [1, 1, 1, 1]
    assert output["clock"]


@pytest.mark.parametrize(
    ("word", "why"),
    [("-DONE", "this CUPTI has one subscriber"), ("-DBUSY", "CUPTI for Other allows no other")],
)
def test_nobody_may_record_beside_another(tmp_path: Path, word: str, why: str) -> None:
    output = output_of(tmp_path, "beside", word)
    assert why in output["refused"]
    assert output["after"] == 0


@pytest.mark.parametrize("kind", ["", "-DDEAF=13", "-DDEAF=20"])
def test_graphs_are_watched_in_full_or_not_at_all(tmp_path: Path, kind: str) -> None:
    output = output_of(tmp_path, "alone", *filter(None, [kind]), program=WATCHING)
    watches = not kind
    assert output == {"watches": watches, "while": int(watches), "after": 0}
