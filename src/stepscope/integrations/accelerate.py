"""Accelerate's ``ProfileKwargs``."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, ClassVar

from stepscope.arguments import shown
from stepscope.errors import StepscopeError
from stepscope.integrations.late import Late
from stepscope.trace.launcher import place_of_process

if TYPE_CHECKING:
    from stepscope.frameworks.torch.dialect.profile import profile


class _Theirs:
    """Pretends to be Accelerate's class, since Accelerate looks handlers up by class."""

    @property  # type: ignore[misc]
    def __class__(self) -> Any:
        theirs = (base for base in type(self).__mro__ if base.__name__ == AccelerateProfile.base)
        return next(theirs, type(self))


class AccelerateProfile(_Theirs, Late):
    """A handler for Accelerate: ``Accelerator(kwargs_handlers=[AccelerateProfile(...)])``.

    ``with accelerator.profile() as prof`` gives a ``stepscope.profile`` then. The arguments are
    those of Accelerate's ``ProfileKwargs``; ``options`` are further ones of ``stepscope.profile``.
    In ``output_trace_dir`` there is the trace as a .stepscope folder and its report, too, beside
    the JSON file that Accelerate writes.
    """

    homes: ClassVar = ("accelerate.utils",)
    base: ClassVar = "ProfileKwargs"
    library: ClassVar = "accelerate"

    # Accelerate's base class is a dataclass with these; it is not known here.
    activities: list[str] | None
    schedule_option: dict[str, int] | None
    on_trace_ready: Callable[[Any], object] | None
    output_trace_dir: str | None
    _get_profiler_activity: Callable[[str], Any]

    def __init__(  # noqa: PLR0917 - in the order of Accelerate's
        self,
        activities: list[str] | None = None,
        schedule_option: dict[str, int] | None = None,
        on_trace_ready: Callable[[Any], object] | None = None,
        record_shapes: bool = False,
        profile_memory: bool = False,
        with_stack: Any = False,
        with_flops: bool = False,
        with_modules: bool = False,
        output_trace_dir: str | os.PathLike[str] | None = None,
        *,
        report: bool = True,
        **options: Any,
    ) -> None:
        """Check the arguments; nothing is recorded before ``accelerator.profile()``."""
        theirs = {
            "record_shapes": record_shapes,
            "profile_memory": profile_memory,
            "with_stack": with_stack,
            "with_flops": with_flops,
            "with_modules": with_modules,
        }
        super().__init__(  # type: ignore[call-arg]
            activities=activities,
            schedule_option=schedule_option,
            on_trace_ready=on_trace_ready,
            output_trace_dir=None if output_trace_dir is None else os.fspath(output_trace_dir),
            **theirs,
        )
        if "schedule" in options:
            given = shown(options["schedule"])
            raise StepscopeError(
                f"schedule={given}: give schedule_option=dict(wait=1, warmup=1, active=3)"
            )
        self._options = {**theirs, **options}
        self._report = report
        self.build()  # raises here what is wrong with them

    def build(self) -> profile:
        """Return the profiler; Accelerate calls this."""
        from stepscope.integrations.recording import Recording
        from stepscope.record.schedules import schedule

        options = {**self._options, "on_trace_ready": self.on_trace_ready}
        if self.activities is not None:
            options["activities"] = [
                self._get_profiler_activity(activity) for activity in self.activities
            ]
        if self.schedule_option is not None:
            options["schedule"] = schedule(**self.schedule_option)
        recording = Recording(options, report=self._report)
        place = place_of_process()
        rank = 0 if place is None else place.rank
        recording.saves_to(self.output_trace_dir, f"profile_{rank}")
        return recording.profiler
