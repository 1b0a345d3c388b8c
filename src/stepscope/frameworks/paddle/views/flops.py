"""What follows a summary ``with_flops``: the layers of a pass, their operators, times and flops."""

from __future__ import annotations

from typing import TYPE_CHECKING

from stepscope.frameworks.paddle.views.layers import layer_rows
from stepscope.text.layout import printable

if TYPE_CHECKING:
    from collections.abc import Mapping

    from stepscope.trace.model import Trace

_WIDTH = 100
_TIMES = {"s": 1e9, "ms": 1e6, "us": 1e3}
_COUNTS = {"T": 1e12, "G": 1e9, "M": 1e6, "K": 1e3}
_ENDINGS = (" compute", " dygraph", " pybind_imperative_func")  # Paddle's, of an operator's name


def flops_text(trace: Trace) -> str:
    """Return the layers of the first forward passes between Paddle's two rules.

    Paddle's own text is empty: it has no shapes to count from, and skips the first thread.
    """
    lines = [
        f"{'  ' * row.level}{_plain(row.name)} latency: {_scaled(row.duration_ns, _TIMES, 'ns')}, "
        f"FLOPs: {_scaled(row.flops, _COUNTS)}, "
        f"FLOPS: {_scaled(row.flops * 1e9 / max(row.duration_ns, 1), _COUNTS)}"
        for row in layer_rows(trace)
    ]
    begin, end = " Flops Profiler Begin ", "- Flops Profiler End -"
    body = lines or ["No layer was recorded."]
    return "".join(
        f"{line}\n" for line in [begin.center(_WIDTH, "-"), *body, end.center(_WIDTH, "-")]
    )


def _plain(name: str) -> str:
    for ending in _ENDINGS:
        name = name.removesuffix(ending)
    return printable(name)


def _scaled(value: float, units: Mapping[str, float], least: str = "") -> str:
    """Return a number with the largest unit in which it is at least one."""
    for unit, size in units.items():
        if value >= size:
            return f"{round(value / size, 2)} {unit}"
    return f"{round(value, 2)} {least}".rstrip()
