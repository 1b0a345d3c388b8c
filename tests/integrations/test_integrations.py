"""The classes for Lightning, Transformers and Accelerate, with the real libraries."""

from __future__ import annotations

import pickle
import subprocess
import sys
import warnings
from typing import TYPE_CHECKING, Any

import pytest

pytest.importorskip("torch")

import torch

import stepscope
from recording import nothing_left_on
from stepscope import integrations
from stepscope.analysis import step_table
from stepscope.analysis.steps.steps import StepsBy

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@pytest.fixture(autouse=True)
def _nothing_left_on() -> Iterator[None]:
    with nothing_left_on(), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the libraries' own
        yield


def names_in(trace: Any) -> set[str]:
    assert trace is not None
    return set(trace.names())


def one_cycle(steps: int) -> Any:
    return stepscope.schedule(wait=1, warmup=0, active=steps, repeat=1)


def test_importing_costs_nothing() -> None:
    program = (
        "import sys, stepscope.integrations as i;"
        "before = set(sys.modules);"
        "assert not {'torch', 'stepscope.integrations.lightning'} & before;"
        "[getattr(i, name) for name in i.__all__];"
        "assert not {'torch', 'lightning', 'transformers', 'accelerate'} & set(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", program], check=True)


def test_an_unknown_name_is_told_what_exists() -> None:
    with pytest.raises(AttributeError, match="LightningProfiler"):
        integrations.Keras  # noqa: B018


def test_without_the_library_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    from stepscope.integrations.late import Late

    class Nobodys(Late):
        homes = ("no_such_library.callbacks",)
        base = "Callback"
        library = "no-such-library"

    with pytest.raises(stepscope.StepscopeError, match="pip install no-such-library"):
        Nobodys()


class TestLightning:
    @pytest.fixture
    def lightning(self) -> Any:
        return pytest.importorskip("lightning.pytorch", reason="lightning is not installed")

    def trained(self, lightning: Any, profiler: Any, folder: Path) -> Any:
        class Model(lightning.LightningModule):  # type: ignore[misc,name-defined]
            def __init__(self) -> None:
                super().__init__()
                self.layer = torch.nn.Linear(4, 1)

            def training_step(self, batch: torch.Tensor, _index: int) -> torch.Tensor:
                return self.layer(batch).sum()

            def validation_step(self, batch: torch.Tensor, _index: int) -> None:
                self.layer(batch)

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
        data = torch.utils.data.DataLoader(torch.ones(16, 4), batch_size=2)
        model = Model()
        trainer.fit(model, data, data)
        return trainer, model, data

    def test_a_training_is_recorded_and_saved(self, lightning: Any, tmp_path: Path) -> None:
        profiler = integrations.LightningProfiler(tmp_path, "first")
        assert isinstance(profiler, lightning.profilers.Profiler)
        trainer, model, data = self.trained(lightning, profiler, tmp_path)
        trace = profiler.trace
        assert {"aten::linear", "[pl][profile]run_training_batch"} <= names_in(trace)
        assert trace is not None
        assert len(step_table(trace)) == 8
        assert not (tmp_path / "first.stepscope").exists(), "it began before the stage"
        assert (tmp_path / "fit-first.stepscope").is_dir()
        assert (tmp_path / "fit-first.html").is_file()
        text = (tmp_path / "fit-first.txt").read_text()
        assert "where a step goes" in text
        # Another stage is another trace.
        trainer.validate(model, data, verbose=False)
        assert "[pl][profile]run_training_batch" not in names_in(profiler.trace)
        assert (tmp_path / "validate-first.stepscope").is_dir()

    def test_a_schedule_marks_the_batches(self, lightning: Any, tmp_path: Path) -> None:
        profiler = integrations.LightningProfiler(
            tmp_path,
            report=False,
            schedule=one_cycle(3),
        )
        self.trained(lightning, profiler, tmp_path)
        assert profiler.trace is not None
        steps = step_table(profiler.trace)
        assert (steps.by, steps.number.tolist()) == (StepsBy.MARKS, [1, 2, 3])
        assert not list(tmp_path.glob("*.html"))

    def test_it_goes_to_another_process(self, lightning: Any, tmp_path: Path) -> None:
        copied = pickle.loads(pickle.dumps(integrations.LightningProfiler(tmp_path, "first")))
        assert isinstance(copied, lightning.profilers.Profiler)
        assert copied.dirpath == tmp_path

    def test_a_wrong_option_is_named_at_once(self, lightning: Any) -> None:
        with pytest.raises(TypeError, match="record_shape"):
            integrations.LightningProfiler(record_shape=True)


class TestTransformers:
    def test_a_training_is_recorded_and_saved(self, tmp_path: Path) -> None:
        transformers = pytest.importorskip(
            "transformers", reason="transformers is not installed: pip install transformers"
        )

        class Model(torch.nn.Module):
            def __init__(self) -> None:
                super().__init__()
                self.layer = torch.nn.Linear(4, 1)

            def forward(self, x: torch.Tensor, labels: Any = None) -> dict[str, torch.Tensor]:
                return {"loss": self.layer(x).sum()}

        def train(callback: Any, folder: Path) -> Any:
            trainer = transformers.Trainer(
                model=Model(),
                args=transformers.TrainingArguments(
                    output_dir=str(folder),
                    per_device_train_batch_size=2,
                    gradient_accumulation_steps=2,
                    num_train_epochs=1,
                    report_to=[],
                    save_strategy="no",
                    disable_tqdm=True,
                    use_cpu=True,
                ),
                train_dataset=[{"x": torch.ones(4), "labels": 0} for _ in range(16)],
                callbacks=[callback],
            )
            trainer.train()
            return trainer

        made = integrations.TransformersCallback()
        assert isinstance(made, transformers.TrainerCallback)
        trainer = train(made, tmp_path)
        assert made.trace is not None
        assert len(step_table(made.trace)) == 4
        assert (tmp_path / "stepscope.stepscope").is_dir()
        assert (tmp_path / "stepscope.html").is_file()
        trainer.train()
        assert (tmp_path / "stepscope-2.stepscope").is_dir()
        # The class alone will do, and so will steps of a schedule.
        train(integrations.TransformersCallback, tmp_path / "by class")
        assert (tmp_path / "by class" / "stepscope.stepscope").is_dir()
        scheduled = integrations.TransformersCallback(
            tmp_path,
            "marked",
            report=False,
            schedule=one_cycle(2),
        )
        train(scheduled, tmp_path)
        assert scheduled.trace is not None
        assert step_table(scheduled.trace).number.tolist() == [1, 2]
        assert (tmp_path / "marked.stepscope").is_dir()


class TestAccelerate:
    @pytest.fixture
    def accelerate(self) -> Any:
        return pytest.importorskip("accelerate", reason="accelerate is not installed")

    def test_its_profile_is_ours(self, accelerate: Any, tmp_path: Path) -> None:
        handler = integrations.AccelerateProfile(
            activities=["cpu"], record_shapes=True, output_trace_dir=tmp_path
        )
        accelerator = accelerate.Accelerator(kwargs_handlers=[handler], cpu=True)
        model = accelerator.prepare(torch.nn.Linear(4, 1))
        with accelerator.profile() as profiler:
            model(torch.ones(2, 4))
        assert isinstance(profiler, stepscope.profile)
        assert "aten::linear" in {row.key for row in profiler.key_averages()}
        assert (tmp_path / "profile_0.json").is_file()  # Accelerate's
        assert (tmp_path / "profile_0.stepscope").is_dir()
        assert (tmp_path / "profile_0.html").is_file()

    def test_a_schedule_and_a_handler(self, accelerate: Any) -> None:
        made: list[int] = []
        handler = integrations.AccelerateProfile(
            schedule_option={"wait": 1, "warmup": 1, "active": 2, "repeat": 1},
            on_trace_ready=lambda profiler: made.append(len(profiler.trace)),
        )
        accelerator = accelerate.Accelerator(kwargs_handlers=[handler], cpu=True)
        with accelerator.profile() as profiler:
            for _ in range(5):
                torch.ones(2) + 1
                profiler.step()
        assert len(made) == 1
        with pytest.raises(stepscope.StepscopeError, match="schedule_option"):
            integrations.AccelerateProfile(schedule=stepscope.schedule(wait=0, warmup=0, active=1))
