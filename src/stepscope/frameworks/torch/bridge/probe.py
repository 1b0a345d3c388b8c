"""Checks that a bridge fits the torch that loads it, by running known operators.

A bridge reads torch's objects at the offsets of the headers that it was compiled with. With another
torch it would misread them, or crash; so it first reports what it reads of two operators, in
another process if it might crash.
"""

from __future__ import annotations

import ctypes
import json
import os
import struct
import subprocess
import sys
import threading
from typing import TYPE_CHECKING, Any, NamedTuple

from stepscope.record.inputs import fragment
from stepscope.trace.keys import CONCRETE_INPUTS, INPUT_DIMS, INPUT_STRIDES, INPUT_TYPES

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

_ROOM = 4096
_TIMEOUT_S = 10
_CHILD_TIMEOUT_S = 120  # the child imports torch
_FLOAT64 = "7"  # c10::ScalarType
_TYPES = [str(number) for number in range(256)]


class _Probe(NamedTuple):
    """An operator, how to run it, and its inputs."""

    name: bytes
    run: Callable[[Any, Any, Any], Any]  # called with torch, a tensor and a weight
    dims: list[Any]
    strides: list[Any]
    types: list[str]
    values: list[str]


# The tensor that both run with, in an unusual memory order.
_DIMS, _STRIDES = [2, 3, 5], [5, 10, 1]
_PROBES = (
    _Probe(
        b"aten::layer_norm",
        lambda torch, tensor, weight: torch.layer_norm(tensor, [5], weight, None, 0.25, False),
        [_DIMS, [], [5], [], [], []],
        [_STRIDES, [], [1], [], [], []],
        [_FLOAT64, "ScalarList", _FLOAT64, "", "Scalar", "Scalar"],
        ["", "[5]", "", "", "0.25", "False"],
    ),
    _Probe(
        b"aten::cat",
        lambda torch, tensor, _: torch.cat([tensor, tensor], 1),
        [[_DIMS, _DIMS], []],
        [[_STRIDES, _STRIDES], []],
        ["TensorList", "Scalar"],
        ["", "1"],
    ),
)


def misfit(bridge: ctypes.CDLL, torch: Any) -> str:
    """Return what the bridge misreads of this torch; empty if it fits.

    The operators run on a thread of their own, where no settings and no profiler of the program's
    apply. While torch is being imported the program has set nothing yet, and another thread would
    wait for the import if an operator imported something.
    """
    problems: list[str] = []

    def look() -> None:
        try:
            problems.append(_misfit(bridge, torch))
        except Exception as error:  # for instance, torch lacks the operator
            problems.append(f"{type(error).__name__}: {error}")

    if getattr(torch.__spec__, "_initializing", False):
        look()
        return problems[0]
    thread = threading.Thread(target=look, name="stepscope: probe", daemon=True)
    thread.start()
    thread.join(_TIMEOUT_S)
    return problems[0] if problems else "it did not answer"


def _misfit(bridge: ctypes.CDLL, torch: Any) -> str:
    tensor = torch.zeros(3, 2, 5, dtype=torch.float64, device="cpu").transpose(0, 1)
    tensor.requires_grad_()
    weight = torch.ones(5, dtype=torch.float64, device="cpu")
    for operator in _PROBES:
        bridge.stepscope_bridge_probe_start(operator.name)
        try:
            result = operator.run(torch, tensor, weight)
        finally:
            seen = _inputs_read(bridge)
        name = operator.name.decode()
        if seen is None:
            return f"it does not see {name}"
        sequence, inputs = seen
        wanted = result.grad_fn._sequence_nr()
        if sequence != wanted:
            return f"it reads {sequence} as the sequence number of {name}, which is {wanted}"
        right = {
            CONCRETE_INPUTS: operator.values,
            INPUT_TYPES: operator.types,
            INPUT_STRIDES: operator.strides,
            INPUT_DIMS: operator.dims,
        }
        if inputs != right:
            return f"it reads {inputs} as the inputs of {name}, which are {right}"
    return ""


def _inputs_read(bridge: ctypes.CDLL) -> tuple[int, object] | None:
    """Return the sequence number and the inputs that the bridge read."""
    sequence = ctypes.c_int64(-1)
    encoded = ctypes.create_string_buffer(_ROOM)
    stop = bridge.stepscope_bridge_probe_stop
    stop.restype = ctypes.c_int64
    size = stop(ctypes.byref(sequence), encoded, ctypes.c_int64(_ROOM))
    if size < 0:
        return None
    try:
        inputs = json.loads(f"{{{fragment(encoded.raw[: min(size, _ROOM)], _TYPES)}}}")
    except struct.error:
        inputs = "data without an end"
    return sequence.value, inputs


def misfit_in_child(path: Path) -> str:
    """Return what the bridge misreads, or how it crashed, in another process."""
    if not sys.executable:
        return "there is no Python interpreter to try it in"
    command = [sys.executable, "-c", f"from {__name__} import main; main({str(path)!r})"]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    try:
        done = subprocess.run(
            command,
            capture_output=True,
            text=True,
            env=environment,
            timeout=_CHILD_TIMEOUT_S,
            check=False,
        )
    except (OSError, subprocess.SubprocessError) as error:
        return str(error)
    if done.returncode == 0:
        return done.stdout.strip()
    if done.returncode < 0:
        return f"it crashed by signal {-done.returncode}"
    return (done.stderr.strip().splitlines() or [f"it exited with {done.returncode}"])[-1]


def main(path: str) -> None:
    """Print what does not fit; this runs in the other process."""
    import torch

    print(misfit(ctypes.CDLL(path, mode=os.RTLD_NOW), torch))
