"""What Python packs, JavaScript decodes: every type, to the last bit."""

from __future__ import annotations

import base64
import gzip
import json
import shutil
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from sample_traces import HOSTILE, recording
from stepscope.report.base.payload import Payload
from stepscope.report.build import _compressed
from stepscope.report.sections.events import add_events

ROOT = Path(__file__).parents[2]
NODE = shutil.which("node")

pytestmark = pytest.mark.skipif(NODE is None, reason="node is not installed")


def decoded(text: str) -> dict[str, Any]:
    """Return what the page would make of a block."""
    done = subprocess.run(
        [str(NODE), "--import", "./tests/report/js/loader.mjs", "tests/report/js/decoded.mjs"],
        cwd=ROOT,
        input=text,
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    )
    answer: dict[str, Any] = json.loads(done.stdout)
    return answer


def roundtrip(payload: Payload) -> dict[str, Any]:
    return decoded(_compressed(payload.packed()))


COLUMNS = {
    "bytes": (np.array([0, 255]), "Uint8Array"),
    "shorts": (np.array([0, 256, 65535]), "Uint16Array"),
    "words": (np.array([65536, 2**32 - 1]), "Uint32Array"),
    "negative": (np.array([-1, 0, 2**31 - 1, -(2**31)]), "Int32Array"),
    "beyond 32 bits": (np.array([2**32, 0, 2**53]), "Float64Array"),
    "negative beyond 32 bits": (np.array([-(2**40), 5]), "Float64Array"),
    "negative and unsigned": (np.array([-1, 2**32 - 1]), "Float64Array"),
    "floats": (np.array([0.1, -1e300, np.inf]), "Float64Array"),
    "short floats": (np.array([0.5, -2.25], np.float32), "Float32Array"),
    "truths": (np.array([True, False, True]), "Uint8Array"),
    "none": (np.zeros(0, np.int64), "Uint8Array"),
    "no floats": (np.zeros(0), "Float64Array"),
    "one": (np.array([7], np.int8), "Uint8Array"),
    "big-endian": (np.array([1, 70000], ">i8"), "Uint32Array"),
    "every other": (np.arange(10)[::2], "Uint8Array"),
}
ASCENDING = {
    "ascending": np.array([5, 5, 6, 1000, 2**40]),
    "ascending from zero": np.array([0, 1, 2]),
    "ascending from below": np.array([-5, -2, 3]),
    "ascending none": np.zeros(0, np.int64),
    "ascending unsigned": np.array([3, 9], np.uint32),
    "not ascending": np.array([9, 3, 2**33, 1]),
    "unsigned, not ascending": np.array([9, 3, 4], np.uint32),
}


def test_every_column_comes_out_as_it_went_in() -> None:
    payload = Payload()
    for name, (values, _) in COLUMNS.items():
        payload.add_column(name, values)
    for name, values in ASCENDING.items():
        payload.add_column(name, values, ascending=True)
    columns = roundtrip(payload)["columns"]
    for name, (values, kind) in COLUMNS.items():
        assert columns[name]["type"] == kind, name
        assert [float(text) for text in columns[name]["values"]] == values.tolist(), name
    for name, values in ASCENDING.items():
        assert [float(text) for text in columns[name]["values"]] == values.tolist(), name


def test_values_come_out_as_they_went_in() -> None:
    payload = Payload()
    values = {
        "texts": HOSTILE,
        "nested": {"a": [1, None, True, {"</script>": 2.5}]},
        "lone": "\ud800",
    }
    for name, value in values.items():
        payload.add_value(name, value)
    assert roundtrip(payload)["values"] == values


def test_the_strings_of_a_trace_come_out_as_they_went_in() -> None:
    trace = recording(HOSTILE)
    payload = Payload()
    add_events(trace, payload)
    answer = roundtrip(payload)
    assert answer["texts"] == trace.strings.decode_all()
    names = [answer["texts"][int(i)] for i in answer["columns"]["slices.name"]["values"]]
    assert names == HOSTILE


def test_a_number_that_json_has_not_is_refused_when_it_is_packed() -> None:
    payload = Payload()
    payload.add_value("share", float("nan"))
    with pytest.raises(ValueError, match="not JSON compliant"):
        payload.packed()


@pytest.mark.parametrize(
    "damaged",
    [
        "",
        "%%% no base64 %%%",
        base64.b64encode(b"no gzip").decode(),
        base64.b64encode(gzip.compress(b"\xff\xff\xff\xff{}", mtime=0)).decode(),
        base64.b64encode(gzip.compress(b"\x02\0\0\0[]", mtime=0)[:-9]).decode(),
        _compressed(Payload().packed())[:40],
    ],
    ids=["empty", "letters", "bytes", "header", "cut", "short"],
)
def test_a_damaged_block_is_told_as_such(damaged: str) -> None:
    assert "the file is damaged or incomplete; write it again" in decoded(damaged)["error"]
