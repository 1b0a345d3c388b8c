"""The SQL tables: readable columns, ids spelled out, times in ns and sizes in bytes."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass

import polars as pl

from stepscope.analysis.calls.stated_parts import Part
from stepscope.analysis.host.modules import ModuleTable
from stepscope.query import frames
from stepscope.registry import Registry
from stepscope.trace.frames import frame_columns
from stepscope.trace.measures import MEASURES, measures_of
from stepscope.trace.model import Memory, Samples, Slices, Trace


@dataclass(frozen=True, slots=True)
class View:
    """A table for queries; each column has a few words, with its unit."""

    name: str
    meaning: str
    stated: Mapping[str, str]
    frame: Callable[[Trace, Collection[str] | None], pl.DataFrame]  # with the columns that a
    # query names, None for all; those of a table that is made quickly may be more
    has_measures: bool = False  # a column for each measure from outside the package

    @property
    def columns(self) -> Mapping[str, str]:
        """Return the meaning of each column, with its unit."""
        added = MEASURES if self.has_measures else ()
        return {
            **self.stated,
            **{measure.name: f"{measure.unit.one}; {measure.meaning}" for measure in added},
        }


VIEWS: Registry[View] = Registry()

_SLICES = frame_columns(Slices)
_STEP_OF = {"step": "the number of that slice's step; null if none"}
_STACK = {
    "frame": "the innermost Python frame: `train.py(12): step`",
    "stack": "all frames, the innermost first, with ` < ` between them",
}
_INSIDE = {
    "inside": "the innermost slice then running on that thread; null if none",
    "module": "the module that it belongs to; null if none",
}

VIEWS.register(
    View(
        "slices",
        "Everything that has a start and a duration: operators, kernels, ranges, modules, ...",
        {
            "id": "its number in the trace; what `parent` refers to",
            **_SLICES,
        },
        frames.slices,
        has_measures=True,
    )
)
VIEWS.register(
    View(
        "ops",
        "Operators of PyTorch and Paddle.",
        {
            "id": "its number in `slices`",
            **{name: _SLICES[name] for name in frames.OF_OPERATORS},
            "module": "the module that it belongs to, also in the backward pass; null if none",
            "shapes": "of its inputs, where they were recorded",
            "types": "of its inputs, where they were recorded",
            "flops": "floating-point operations by formula; 0 where shapes are not known",
            "device_ns": "ns; of the device work that it launched itself",
        },
        frames.ops,
        has_measures=True,
    )
)
VIEWS.register(
    View(
        "kernels",
        "Device work: kernels, copies, fills.",
        {
            "id": "its number in `slices`",
            **{name: _SLICES[name] for name in frames.OF_KERNELS},
            "kind": "compute, communication, copy or fill",
            "device": "the device, as the trace numbers it",
            "stream": "the stream",
            "operator": "the operator or range that launched it; null where that is not known",
            "module": "the module of that operator; null if none",
            "launched_ns": "ns; when the host launched it; null where that is not known",
        },
        frames.kernels,
        has_measures=True,
    )
)
VIEWS.register(
    View(
        "steps",
        "The steps of training or inference, and where their time went.",
        {
            "step": "its number",
            **{name: _SLICES[name] for name in frames.WHEN},
            "is_whole": "false where its beginning is not known",
            "is_steady": "false for those that warm up or compile",
            "found_by": "what the steps were recognised by: marks, optimizer, module, loader, "
            "request",
            "on_device": "whether the parts are what devices did; else what the thread did",
            **{
                f"{part.name.lower()}_ns": f"ns; {part.name.lower().replace('_', ' ')}"
                for part in Part
            },
            "waiting_for_core_ns": "ns; how long its thread was ready to run and had no core",
        },
        frames.steps,
    )
)
VIEWS.register(
    View(
        "modules",
        "Modules of the model, in the order of first calls; `self` is without those inside.",
        {
            measure.name: "; ".join(filter(None, (measure.unit.one, measure.meaning)))
            for measure in measures_of(ModuleTable).values()
        },
        frames.modules,
    )
)
VIEWS.register(
    View(
        "memory",
        "Allocations and releases of memory.",
        {
            **frame_columns(Memory),
            **_STACK,
            **_INSIDE,
            **_STEP_OF,
        },
        frames.memory,
    )
)
VIEWS.register(
    View(
        "samples",
        "What the Python threads were doing, looked at every ms or so.",
        {
            **{name: frame_columns(Samples)[name] for name in frames.OF_SAMPLES},
            **_STACK,
            "inside": _INSIDE["inside"],
            **_STEP_OF,
        },
        frames.samples,
    )
)
VIEWS.register(
    View(
        "findings",
        "The problems that Stepscope found, the most expensive first.",
        {name: meaning for name, (_, meaning) in frames.OF_FINDINGS.items()},
        frames.findings,
    )
)
VIEWS.register(
    View(
        "ranks",
        "One row per trace: which process it is of, and its totals.",
        {name: meaning for name, (_, meaning) in frames.OF_RANKS.items()},
        frames.ranks,
    )
)


def markdown() -> str:
    parts = []
    for view in VIEWS:
        rows = [f"| `{column}` | {meaning} |" for column, meaning in view.columns.items()]
        head = [f"### {view.name}", "", view.meaning, "", "| column | meaning |", "|---|---|"]
        parts.append("\n".join([*head, *rows]))
    return "\n\n".join(parts)
