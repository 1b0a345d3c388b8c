"""summary() on 100k events, beside Paddle's own: each of its own recording of the same steps."""

from __future__ import annotations

import contextlib
import io
import json
import sys
from typing import Any

from common import in_children, timed_s
from rows import Row, faster_row

EVENTS = 100_000
BAR = 30.0
STEPS = 20
EVENTS_A_BATCH = 79


def recorded(dialect: Any, events: int) -> Any:
    """Record some steps of a small model, until there are so many events."""
    import paddle

    model = paddle.nn.Sequential(paddle.nn.Linear(8, 16), paddle.nn.ReLU(), paddle.nn.Linear(16, 4))
    sgd = paddle.optimizer.SGD(parameters=model.parameters())
    x = paddle.randn([2, 8])
    profiler = dialect.Profiler(targets=[dialect.ProfilerTarget.CPU], on_trace_ready=lambda _: None)
    profiler.start()
    for _ in range(STEPS):
        for _ in range(events // STEPS // EVENTS_A_BATCH):
            model(x).mean().backward()
            sgd.step()
            sgd.clear_grad()
        profiler.step()
    profiler.stop()
    return profiler


def measure(events: int) -> dict[str, float]:
    """Return the seconds of both summaries."""
    import paddle

    import stepscope.paddle

    with contextlib.redirect_stdout(io.StringIO()) as printed:
        mine = recorded(stepscope.paddle, events)
        theirs = recorded(paddle.profiler, events)
        mine.summary()  # imports are not what is compared
        before = printed.tell()
        ours_s = timed_s(mine.summary)
        assert printed.tell() > before
        theirs_s = timed_s(theirs.summary)
    return {"events": len(mine.trace), "ours": ours_s, "paddle": theirs_s}


def rows(quick: bool = False) -> list[Row]:
    """Compare, in processes of their own."""
    runs = in_children(3, "paddle_summary", str(EVENTS // 10 if quick else EVENTS))
    what = f"Paddle's summary(), {runs[0]['events'] / 1000:.0f}k events"
    ours, theirs = ([run[name] for run in runs] for name in ("ours", "paddle"))
    return [faster_row(what, ours, theirs, "paddle.profiler", BAR)]


if __name__ == "__main__":
    print(json.dumps(measure(int(sys.argv[1]))))
