"""Each remedy finds its place in a program, and shows that it took effect."""

from __future__ import annotations

import ast
import sys
import time
from pathlib import Path

import pytest

pytest.importorskip("torch")

from stepscope.remedies.arms import Arm, Program, RefusedError
from stepscope.remedies.edits import Sources
from stepscope.remedies.remedy import Change, Facts, all_changes
from stepscope.remedies.rounds import survey
from stepscope.remedies.trial import unit_of

pytestmark = pytest.mark.slow  # a program that imports torch is started for each change

LONG_S = 600.0  # for a machine that is busy

TRAINS = """\
import gc

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(0)
torch.set_num_threads(3)
loader = DataLoader(TensorDataset(torch.randn(128, 16, dtype=torch.float64)), batch_size=8)


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(16, 1500), nn.Linear(1500, 1500), nn.Linear(1500, 16))

    def forward(self, x):
        return self.layers(x).tanh()


def train(model, epochs):
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    for epoch in range(epochs):
        for (batch,) in loader:
            loss = (model(batch) - batch).square().mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        waste = [[number] for number in range(2000)]
        gc.collect()


train(Net().double(), 4)
"""

EVALUATES = """\
import torch
from torch import nn

torch.manual_seed(0)
weights = torch.rand(400, 400)


def table():
    return weights @ weights @ weights


class Judge:
    def __init__(self):
        self.net = nn.Linear(400, 10).eval()

    def judge(self, batch):
        return self.net(batch @ table()).argmax(1)


judge = Judge()
for step in range(60):
    judge.judge(torch.rand(4, 400))
"""

EXPECTED = {
    "train": {
        "Adam(..., fused=True)": "optimizers",
        "DataLoader(..., num_workers=": "loaders",
        "torch.set_num_threads(1)": "threads",
        "no gc.collect() in the loop": "collections",
        "gc.freeze() before the loop": "frozen",
        "float32 for float64": "dtypes",
        "torch.compile of Net": "compiled",
    },
    "evaluate": {
        "remember table": "remembered",
        "no gradients in judge": "calls_with_gradients",
    },
}


@pytest.mark.parametrize(("name", "text"), [("train", TRAINS), ("evaluate", EVALUATES)])
def test_each_change_takes_effect(
    name: str, text: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "project"
    folder.mkdir()
    path = folder / f"{name}.py"
    path.write_text(text, encoding="utf-8")
    monkeypatch.chdir(folder)
    monkeypatch.setattr(sys, "stdin", None)
    words = [sys.executable, path.name]
    program = Program.of(words, folder, tmp_path, network=False)
    try:
        facts = survey(program, LONG_S, time.perf_counter() + LONG_S)
    except RefusedError as error:
        pytest.skip(str(error))
    sources = Sources()
    unit, steps = unit_of(facts)
    assert steps >= 60
    changes = all_changes(Facts(facts, sources, unit))
    plain = state_after(program, unit, {})
    for title, proof in EXPECTED[name].items():
        change = next((change for change in changes if change.title.startswith(title)), None)
        assert change is not None, (title, [change.title for change in changes])
        assert change.proof == proof
        texts = sources.edited(change.edits)
        for edited in texts.values():
            ast.parse(edited)
        assert state_after(program, unit, texts)[proof] != plain[proof], title
    assert_places_are_lines(changes, text)


def state_after(program: Program, unit: str, edits: dict[str, str]) -> dict[str, object]:
    """Return what a program's state is after some steps."""
    arm = Arm(program, "an arm", unit, edits)
    try:
        arm.start(time.perf_counter() + LONG_S)
        report = arm.window(40, time.perf_counter() + LONG_S, digest=True)
        state: dict[str, object] = report.facts["state"]
        return state
    finally:
        arm.end()


def assert_places_are_lines(changes: list[Change], text: str) -> None:
    count = text.count("\n")
    for change in changes:
        _, _, line = change.place.rpartition(":")
        assert not line.isdigit() or 1 <= int(line) <= count
