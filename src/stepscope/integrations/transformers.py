"""Transformers' ``TrainerCallback``."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any, ClassVar

from stepscope.arguments import folder_path
from stepscope.integrations.late import Late
from stepscope.integrations.recording import Recording
from stepscope.trace.model import Trace


class TransformersCallback(Late):
    """A callback for Transformers: ``Trainer(..., callbacks=[TransformersCallback()])``.

    It records the training as `stepscope run` does, and saves the trace and its report in
    ``folder``, by default the trainer's ``output_dir``, as NAME-RANK.stepscope. ``options`` are
    those of ``stepscope.profile``. With a ``schedule`` of its, a step of the trainer is one of it.
    """

    homes: ClassVar = ("transformers.trainer_callback",)
    base: ClassVar = "TrainerCallback"
    library: ClassVar = "transformers"

    def __init__(
        self,
        folder: str | os.PathLike[str] | None = None,
        name: str = "stepscope",
        *,
        report: bool = True,
        **options: Any,
    ) -> None:
        """Check the options; nothing is recorded before the training begins."""
        super().__init__()
        if folder is not None:
            folder_path("folder", folder)
        self._folder = folder
        self._name = name
        self._options = options
        self._report = report
        Recording(options, report=report)  # raises here what is wrong with them
        self._recording: Recording | None = None
        self._marks_steps = options.get("schedule") is not None

    @property
    def trace(self) -> Trace | None:
        """Return the last trace; None before it is finished."""
        return self._recording.trace if self._recording else None

    def on_train_begin(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        if self._recording is not None:
            self._recording.finish()  # of a training that failed
        self._recording = Recording(self._options, report=self._report)
        rank = getattr(args, "process_index", 0)
        alone = getattr(args, "world_size", 1) <= 1
        folder = Path(self._folder if self._folder is not None else args.output_dir)
        self._recording.saves_to(folder, self._name if alone else f"{self._name}-{rank}")
        self._recording.start()

    def on_step_end(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        if self._marks_steps and self._recording is not None:
            self._recording.step()

    def on_train_end(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        if self._recording is not None:
            self._recording.finish()

    def __getstate__(self) -> dict[str, Any]:
        """Leave out the recording, which stays in this process."""
        return {**vars(self), "_recording": None}
