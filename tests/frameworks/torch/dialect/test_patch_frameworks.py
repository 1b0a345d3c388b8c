"""patch_torch() with the libraries that use torch.profiler on the user's behalf."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

pytest.importorskip("torch")

import torch

import stepscope
from stepscope import patch_torch

if TYPE_CHECKING:
    from pathlib import Path


pytestmark = pytest.mark.filterwarnings("ignore")  # the libraries' own


def ops_in(path: Path) -> list[str]:
    """Return the names of the operators in a Chrome trace that we wrote."""
    content = json.loads(path.read_bytes())
    assert "stepscope" in content, "torch wrote this file"
    return [event["name"] for event in content["traceEvents"] if event.get("cat") == "cpu_op"]


# ---- Lightning


@pytest.fixture
def lightning() -> Any:
    return pytest.importorskip("lightning.pytorch", reason="lightning is not installed")


def trained(lightning: Any, profiler: Any, folder: Path, batches: int = 8) -> Any:
    """Train a small model for one epoch, and return the trainer."""

    class Model(lightning.LightningModule):  # type: ignore[misc,name-defined]
        def __init__(self) -> None:
            super().__init__()
            self.layer = torch.nn.Linear(4, 1)

        def training_step(self, batch: torch.Tensor, _index: int) -> torch.Tensor:
            return self.layer(batch).sum()

        def configure_optimizers(self) -> torch.optim.Optimizer:
            return torch.optim.SGD(self.parameters(), lr=0.1)

    trainer = lightning.Trainer(
        max_epochs=1,
        accelerator="cpu",
        profiler=profiler,
        logger=False,
        enable_checkpointing=False,
        enable_progress_bar=False,
        enable_model_summary=False,
        default_root_dir=folder,
    )
    data = torch.utils.data.DataLoader(torch.ones(batches * 2, 4), batch_size=2)
    trainer.fit(Model(), data)
    return trainer


@pytest.mark.slow
class TestLightning:
    def test_its_profiler_records_through_us(self, lightning: Any, tmp_path: Path) -> None:
        from lightning.pytorch.profilers import PyTorchProfiler

        # All rows: which twenty take the most time is the machine's affair.
        profiler = PyTorchProfiler(dirpath=tmp_path, filename="fit", row_limit=-1)
        with patch_torch():
            trained(lightning, profiler, tmp_path)
        assert isinstance(profiler.function_events, stepscope.torch.EventList)
        keys = {row.key for row in profiler.function_events.key_averages()}
        assert {"aten::linear", "ProfilerStep*"} <= keys
        assert any(key.startswith("[pl][profile]") for key in keys)
        assert any(key.startswith("[pl][module]") for key in keys)
        reports = list(tmp_path.glob("fit*.txt"))
        assert reports
        assert "aten::linear" in reports[0].read_text()
        traces = list(tmp_path.glob("*.pt.trace.json"))
        assert traces
        assert "aten::linear" in ops_in(traces[0])

    def test_a_schedule_that_it_overrides(self, lightning: Any, tmp_path: Path) -> None:
        """With few steps Lightning sets another schedule, and the number of the step."""
        from lightning.pytorch.profilers import PyTorchProfiler

        profiler = PyTorchProfiler(dirpath=tmp_path, filename="fit")
        with patch_torch():
            trained(lightning, profiler, tmp_path, batches=2)
        assert isinstance(profiler.function_events, stepscope.torch.EventList)
        assert "aten::linear" in {event.name for event in profiler.function_events}

    def test_options_reach_us(self, lightning: Any, tmp_path: Path) -> None:
        from lightning.pytorch.profilers import PyTorchProfiler

        made: list[Any] = []

        class Noting(PyTorchProfiler):  # type: ignore[misc]
            def _create_profiler(self, profiler: Any) -> Any:
                made.append(super()._create_profiler(profiler))
                return made[-1]

        profiler = Noting(
            dirpath=tmp_path,
            filename="fit",
            record_shapes=True,
            schedule=torch.profiler.schedule(wait=0, warmup=1, active=2, repeat=1),
        )
        with patch_torch():
            trained(lightning, profiler, tmp_path)
        assert [type(profiler).__mro__[1] for profiler in made] == [stepscope.profile]
        assert made[0].record_shapes is True

    def test_without_the_patch_it_is_torchs(self, lightning: Any, tmp_path: Path) -> None:
        from lightning.pytorch.profilers import PyTorchProfiler

        profiler = PyTorchProfiler(dirpath=tmp_path, filename="fit")
        trained(lightning, profiler, tmp_path)
        assert not isinstance(profiler.function_events, stepscope.torch.EventList)


# ---- Accelerate


@pytest.fixture
def accelerate() -> Any:
    return pytest.importorskip("accelerate", reason="accelerate is not installed")


class TestAccelerate:
    def test_its_profiler_records_through_us(self, accelerate: Any, tmp_path: Path) -> None:
        options = accelerate.ProfileKwargs(
            activities=["cpu"], record_shapes=True, output_trace_dir=str(tmp_path)
        )
        accelerator = accelerate.Accelerator(cpu=True, kwargs_handlers=[options])
        model = accelerator.prepare(torch.nn.Linear(4, 1))
        with patch_torch(), accelerator.profile() as profiler:
            accelerator.backward(model(torch.ones(2, 4)).sum())
        assert isinstance(profiler, stepscope.profile)
        assert profiler.record_shapes is True
        keys = {row.key for row in profiler.key_averages()}
        assert {"aten::linear", "AddmmBackward0"} <= keys
        (path,) = tmp_path.iterdir()
        assert "aten::linear" in ops_in(path)

    def test_a_schedule(self, accelerate: Any) -> None:
        delivered = []
        options = accelerate.ProfileKwargs(
            activities=["cpu"],
            schedule_option={"wait": 1, "warmup": 1, "active": 2, "repeat": 1},
            on_trace_ready=lambda profiler: delivered.append(len(profiler.events())),
        )
        accelerator = accelerate.Accelerator(cpu=True, kwargs_handlers=[options])
        with patch_torch(), accelerator.profile() as profiler:
            for _ in range(5):
                torch.ones(1).neg()
                profiler.step()
        assert delivered == [2 * 5]  # two steps, each with its own range and four operators
