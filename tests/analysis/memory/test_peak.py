"""What holds the peak of memory, and what would lower it."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
import pytest

from made_memory import Event, Said, trace_with_memory
from made_trace import Call
from stepscope.analysis.answer import answer
from stepscope.analysis.memory.peak import PeakMemory, peak_memory
from stepscope.cli import main
from stepscope.trace.model import MemoryOwner, SliceFlags, save_trace

if TYPE_CHECKING:
    from pathlib import Path

    from stepscope.trace.model import Trace

MIB = 1 << 20
GPU = "cuda:0"

# Two layers keep two activations each for the backward pass, from 20 to 250 µs; a convolution takes
# a workspace from 60 to 70 µs; a gradient of the step before is still there.
CALLS = [
    Call("Optimizer.step#SGD.step", 2, 8, category="user_annotation"),
    Call("layers.0", 10, 40, category="module"),
    Call("aten::linear", 15, 35, stack=("model.py(7): forward",)),
    Call("layers.1", 50, 80, category="module"),
    Call("aten::cudnn_convolution", 55, 75, stack=("model.py(9): forward",)),
    Call("MmBackward0", 200, 300, flags=SliceFlags.BACKWARD),
    Call("aten::mm", 210, 220),
    Call("Optimizer.step#SGD.step", 310, 320, category="user_annotation"),
]
EVENTS = [
    Event(1, 5 * MIB, 0x9000, GPU),
    Event(20, 8 * MIB, 0x1000, GPU),
    Event(30, 4 * MIB, 0x2000, GPU),
    Event(56, 6 * MIB, 0x3000, GPU),
    Event(58, 4 * MIB, 0x4000, GPU),
    Event(60, 32 * MIB, 0x5000, GPU),
    Event(70, -32 * MIB, 0x5000, GPU),
    *(Event(250 + i, -size * MIB, 0x1000 * (i + 1), GPU) for i, size in enumerate((8, 4, 6, 4))),
]


def made(*, before: int = 100 * MIB, reserved: int = 0, device: str = GPU) -> Trace:
    total, events = before, []
    for event in EVENTS:
        total += event.bytes
        events.append(replace(event, allocated=total, device=device))
    values = [Said(3, 0x9000, MemoryOwner.GRADIENT, 5 * MIB, device)]
    trace = trace_with_memory(CALLS, events, values, end_ns=400_000)
    memory = replace(trace.memory, reserved=np.full(len(events), reserved, np.int64))
    return replace(trace, memory=memory)


def peak_of(trace: Trace) -> PeakMemory:
    peak = peak_memory(trace)
    assert peak is not None
    return peak


def test_what_it_is_made_of() -> None:
    result = peak_of(made())
    assert (result.bytes, result.time_ns) == (159 * MIB, 60_000)
    assert dict(result.categories) == {
        "unknown": 100 * MIB,
        "temporary": 32 * MIB,
        "activation": 22 * MIB,
        "gradient": 5 * MIB,
    }
    largest = next(holder for holder in result.holders if holder.operator)
    assert (largest.module, largest.line) == ("layers.1", "model.py(9): forward")
    assert (largest.operator, largest.bytes) == ("aten::cudnn_convolution", 32 * MIB)
    assert result.unknown == (
        "100 MiB of the peak was allocated before the recording began: by whom is not known.",
    )


def test_what_would_lower_it() -> None:
    result = peak_of(made(reserved=200 * MIB))
    assert (result.reserved, result.unused) == (200 * MIB, 41 * MIB)
    savings = {saving.id: saving.bytes for saving in result.savings}
    # Of the layers' insides, 8 and 6 MiB, the larger stays.
    assert savings == {
        "fragmentation": 41 * MIB,
        "workspace": 32 * MIB,
        "checkpointing": 6 * MIB,
        "gradients": 5 * MIB,
    }


def test_memory_of_the_cpu_has_no_workspace_to_choose() -> None:
    savings = peak_of(made(reserved=200 * MIB, device="cpu")).savings
    assert {gradient.id for gradient in savings} == {"checkpointing", "gradients"}


def test_advice_is_for_the_framework_of_the_trace() -> None:
    trace = made()
    trace = replace(trace, info=replace(trace.info, versions={"paddle": "3.2.2"}))
    texts = " ".join(item.text for item in peak_of(trace).savings)
    assert "recompute" in texts and "clear_grad" in texts
    assert "torch" not in texts


def test_a_file_without_addresses_says_what_is_a_guess() -> None:
    events = [Event(10 * i, size, 0, GPU) for i, size in enumerate((8, 8, -8, 4))]
    result = peak_of(trace_with_memory(CALLS, events))
    assert result.bytes == 16
    assert any("no addresses" in line for line in result.unknown)


def test_terminal_and_json_have_the_same_bytes(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = str(tmp_path / "made.stepscope")
    trace = made(reserved=200 * MIB)
    save_trace(trace, path)
    assert main(["summary", path, "--memory", "--findings", "none"]) == 0
    out = capsys.readouterr().out
    assert f"cuda:0: 159 MiB ({159 * MIB:,} bytes) in use at the peak" in out
    assert "32.0 MiB  Workspace of convolutions" in out
    assert main(["summary", path, "--json"]) == 0
    (parsed,) = json.loads(capsys.readouterr().out)["memory"]
    assert parsed["peak_bytes"] == 159 * MIB
    assert [peak.bytes for peak in answer(trace).memory] == [159 * MIB]
    (tmp_path / "none.json").write_text('{"traceEvents": []}')
    assert main(["summary", str(tmp_path / "none.json"), "--memory"]) == 2
    assert "profile_memory=True" in capsys.readouterr().err


def test_gradients_that_are_filled_with_zeros_are_known_to_the_byte() -> None:
    torch = pytest.importorskip("torch")
    import stepscope

    model = torch.nn.Linear(256, 256)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    with stepscope.profile(profile_memory=True) as prof:
        for _ in range(3):
            optimizer.zero_grad(set_to_none=False)
            model(torch.randn(512, 256)).square().mean().backward()
            optimizer.step()
    savings = {item.id: item.bytes for item in peak_of(prof.trace).savings}
    assert savings["gradients"] == 4 * (256 * 256 + 256)
