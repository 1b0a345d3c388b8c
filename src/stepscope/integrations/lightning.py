"""Lightning's ``Profiler``."""

from __future__ import annotations

from pathlib import Path
from typing import Any, ClassVar

from stepscope._native import record_function
from stepscope.integrations.late import Late
from stepscope.integrations.recording import Recording
from stepscope.trace.model import Trace

_STEP_ENDS = {
    "fit": "run_training_batch",
    "validate": ".validation_step",
    "test": ".test_step",
    "predict": ".predict_step",
}


class LightningProfiler(Late):
    """A profiler for Lightning: ``Trainer(profiler=LightningProfiler())``.

    It records as `stepscope run` does, from the first action of a stage to its end, each action of
    Lightning as a range. The trace and its report are saved in ``dirpath``, by default where the
    trainer logs, as STAGE-FILENAME-RANK.stepscope, and the answer is what ``describe()`` shows.
    ``options`` are those of ``stepscope.profile``. With a ``schedule`` of its, a batch is a step.
    """

    homes: ClassVar = ("lightning.pytorch.profilers", "pytorch_lightning.profilers")
    base: ClassVar = "Profiler"
    library: ClassVar = "lightning"

    # Lightning's base class declares these; it is not known here.
    dirpath: str | Path | None
    _stage: str | None
    _prepare_filename: Any

    def __init__(
        self,
        dirpath: str | Path | None = None,
        filename: str | None = None,
        *,
        report: bool = True,
        **options: Any,
    ) -> None:
        """Check the options; nothing is recorded before the trainer begins."""
        super().__init__(dirpath=dirpath, filename=filename)  # type: ignore[call-arg]
        self._options = options
        self._report = report
        Recording(options, report=report)  # raises here what is wrong with them
        self._recording: Recording | None = None
        self._actions: dict[str, list[Any]] = {}
        self._marks_steps = options.get("schedule") is not None

    @property
    def trace(self) -> Trace | None:
        """Return the last trace; None before it is finished."""
        return self._recording.trace if self._recording else None

    def start(self, action_name: str) -> None:
        """Begin an action; the first one of a stage starts the recording."""
        # Before a stage begins, the trainer asks hooks for this and that.
        if self._recording is None and (self._stage or not action_name.startswith("[")):
            self._recording = Recording(self._options, report=self._report)
            self._recording.saves_to(self.dirpath or ".", self._prepare_filename(extension=""))
            self._recording.start()
        opened = record_function(f"[pl][profile]{action_name}")
        opened.__enter__()
        self._actions.setdefault(action_name, []).append(opened)

    def stop(self, action_name: str) -> None:
        """End an action; the last one of a batch ends a step."""
        opened = self._actions.get(action_name)
        if opened:
            opened.pop().__exit__(None, None, None)
        ends = _STEP_ENDS.get(self._stage or "fit", _STEP_ENDS["fit"])
        if self._marks_steps and self._recording is not None and action_name.endswith(ends):
            self._recording.step()

    def setup(self, stage: str, local_rank: int | None = None, log_dir: str | None = None) -> None:
        """Begin a stage, with a recording of its own."""
        self._finish()
        self._recording = None
        super().setup(stage=stage, local_rank=local_rank, log_dir=log_dir)  # type: ignore[misc]

    def summary(self) -> str:
        self._finish()
        return self._recording.answer() if self._recording else ""

    def teardown(self, stage: str | None) -> None:
        """End the recording if it still runs."""
        self._finish()
        super().teardown(stage=stage)  # type: ignore[misc]

    def _finish(self) -> None:
        recording = getattr(self, "_recording", None)  # __del__ comes here, too
        if recording is not None:
            for opened in self._actions.values():
                while opened:
                    opened.pop().__exit__(None, None, None)
            recording.finish()

    def __getstate__(self) -> dict[str, Any]:
        """Leave out the recording, which stays in this process."""
        return {**vars(self), "_recording": None, "_actions": {}}
