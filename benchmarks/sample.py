"""A torch trace to read, made here.

``STEPSCOPE_SAMPLE_TRACE`` names a file that torch.profiler wrote (.json.gz) instead, such as the
sample of https://github.com/facebookresearch/HolisticTraceAnalysis, tests/data/df_index_resolver.
"""

from __future__ import annotations

import gzip
import os
import re
from pathlib import Path

LAUNCHES = 31_000  # with seven events each, four of them slices: about as many as in HTA's sample
PERIOD_US = 2_000_000  # longer than the sample
ID_STEP = 10_000_000  # more than any id in it
OPERATORS = ("add", "mul", "addmm", "native_layer_norm", "convolution", "gelu", "sum", "copy_")

_HEAD = """{
  "schemaVersion": 1,
  "deviceProperties": [
    {
      "id": 0, "name": "Tesla V100-SXM2-32GB", "totalGlobalMem": 34089730048,
      "computeMajor": 7, "computeMinor": 0, "numSms": 80
    }
  ],
  "traceEvents": ["""
_TAIL = """
  ],
  "traceName": "made"
}
"""
# An operator, the one that it calls, a launch with its kernel and their arrow, and an allocation.
_LAUNCH = """
  {{
    "ph": "X", "cat": "cpu_op", "name": "aten::{name}", "pid": 100, "tid": 101,
    "ts": {ts}, "dur": 40,
    "args": {{
      "External id": {id}, "Ev Idx": {id}, "Input Dims": [[{rows}, 256], [256, 256]]
    }}
  }},
  {{
    "ph": "X", "cat": "cpu_op", "name": "aten::_{name}_out", "pid": 100, "tid": 101,
    "ts": {inner}, "dur": 30,
    "args": {{
      "External id": {inner_id}, "Ev Idx": {inner_id}
    }}
  }},
  {{
    "ph": "i", "cat": "cpu_instant_event", "s": "t", "name": "[memory]", "pid": 100, "tid": 101,
    "ts": {inner},
    "args": {{
      "Total Allocated": {total}, "Bytes": 4096, "Addr": {address}, "Device Type": 1, "Device Id": 0
    }}
  }},
  {{
    "ph": "X", "cat": "cuda_runtime", "name": "cudaLaunchKernel", "pid": 100, "tid": 101,
    "ts": {launch}, "dur": 9,
    "args": {{
      "External id": {inner_id}, "cbid": 211, "correlation": {id}
    }}
  }},
  {{
    "ph": "s", "id": {id}, "pid": 100, "tid": 101, "ts": {launch},
    "cat": "ac2g", "name": "ac2g"
  }},
  {{
    "ph": "X", "cat": "kernel", "name": "void at::native::{name}_kernel<float, {kind}>(float*)",
    "pid": 0, "tid": 7, "ts": {kernel}, "dur": {dur},
    "args": {{
      "External id": {inner_id}, "device": 0, "context": 1, "stream": 7, "correlation": {id},
      "grid": [{rows}, 1, 1], "block": [256, 1, 1], "est. achieved occupancy %": 40
    }}
  }},
  {{
    "ph": "f", "id": {id}, "pid": 0, "tid": 7, "ts": {kernel},
    "cat": "ac2g", "name": "ac2g", "bp": "e"
  }}"""


def sample(folder: Path) -> tuple[Path, str]:
    """Return the trace, and what to call it; one that is made goes into the folder."""
    if named := os.environ.get("STEPSCOPE_SAMPLE_TRACE"):
        return Path(named), Path(named).name
    made = folder / "made.json.gz"
    events = ",".join(_launch(number) for number in range(LAUNCHES))
    made.write_bytes(gzip.compress(f"{_HEAD}{events}{_TAIL}".encode(), compresslevel=1))
    return made, "a made sample"


def _launch(number: int) -> str:
    ts = 1_669_783_687_000_000 + number * 60
    return _LAUNCH.format(
        name=OPERATORS[number % len(OPERATORS)],
        kind=number % 12,
        id=2 * number + 1,
        inner_id=2 * number + 2,
        rows=32 << number % 5,
        ts=ts,
        inner=ts + 5,
        launch=ts + 20,
        kernel=ts + 25,
        dur=12 + number % 40,
        total=4096 * (number % 1000),
        address=140_000_000_000_000 + 4096 * (number % 1000),
    )


def repeat(source: Path, target: Path, copies: int) -> None:
    """Write the trace some times over, each later and with ids of its own."""
    text = gzip.decompress(source.read_bytes()).decode()
    parts = re.split(r"(?<=\"traceEvents\": \[)|(?=\n  \],\n  \"traceName\")", text)
    if len(parts) != 3:
        raise SystemExit(f"{source} is not laid out as torch.profiler writes its files")
    opening, events, closing = parts
    pattern = re.compile(r'"(ts|id|External id|correlation)": (\d+)')
    with gzip.open(target, "wb", compresslevel=6) as file:
        file.write(opening.encode())
        for copy in range(copies):
            steps = {"ts": copy * PERIOD_US}

            def shifted(match: re.Match[str], steps: dict[str, int] = steps, n: int = copy) -> str:
                key, number = match.groups()
                return f'"{key}": {int(number) + steps.get(key, n * ID_STEP)}'

            file.write((pattern.sub(shifted, events) + "," * (copy < copies - 1)).encode())
        file.write(closing.encode())
