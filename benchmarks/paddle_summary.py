"""summary() on 100k events of a real run, beside Paddle's own, in one process."""

from __future__ import annotations

import contextlib
import io
import json
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

from common import Row, in_child, seconds, timed_ns

if TYPE_CHECKING:
    from collections.abc import Callable

EVENTS = 100_000
BAR = 30.0
STEPS = 20


def recorded(events: int) -> Any:
    """Let Paddle record some steps of a small model, until there are so many events."""
    import paddle

    model = paddle.nn.Sequential(paddle.nn.Linear(8, 16), paddle.nn.ReLU(), paddle.nn.Linear(16, 4))
    sgd = paddle.optimizer.SGD(parameters=model.parameters())
    x = paddle.randn([2, 8])

    def profile(batches: int) -> Any:
        profiler = paddle.profiler.Profiler(
            targets=[paddle.profiler.ProfilerTarget.CPU], on_trace_ready=lambda _: None
        )
        with contextlib.redirect_stdout(io.StringIO()):  # the timer's summary
            profiler.start()
            for _ in range(STEPS):
                for _ in range(batches):
                    model(x).mean().backward()
                    sgd.step()
                    sgd.clear_grad()
                profiler.step()
            profiler.stop()
        return profiler

    per_batch = count(profile(1)) / STEPS
    return profile(max(1, round(events / STEPS / per_batch)))


def count(profiler: Any) -> int:
    """Return the number of events that Paddle holds."""
    stack, found = list(profiler.profiler_result.get_data().values()), 0
    while stack:
        node = stack.pop()
        found += 1
        stack += node.children_node
    return found


def best_s(rounds: int, work: Callable[[], object]) -> float:
    """Return the shortest time of a few calls."""
    return min(timed_ns(work) for _ in range(rounds)) / 1e9


def measure(events: int) -> dict[str, float]:
    """Return the seconds of both summaries of one recording, and of reading its file."""
    from stepscope.frameworks.paddle.files.read_pb import read_paddle_pb
    from stepscope.frameworks.paddle.views.summary import summary_text

    profiler = recorded(events)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "run.pb"
        profiler.profiler_result.save(str(path), "pb")
        trace = read_paddle_pb(path)
        read_s = best_s(5, lambda: read_paddle_pb(path))
    with contextlib.redirect_stdout(io.StringIO()) as printed:
        ours_s = best_s(7, lambda: print(summary_text(trace)))
        ours = printed.tell()
        theirs_s = best_s(2, profiler.summary)
    assert ours > 0
    assert printed.tell() > ours
    return {"events": len(trace), "ours": ours_s, "read": read_s, "paddle": theirs_s}


def rows(events: int = EVENTS) -> list[Row]:
    """Compare, in a process of its own."""
    found = in_child("paddle_summary", str(events))
    what = f"Paddle's summary(), {found['events'] / 1000:.0f}k events"
    result = []
    for name, ours_s, bar in (
        (what, found["ours"], BAR),
        (f"{what}, with reading the .pb file", found["ours"] + found["read"], None),
    ):
        ratio = found["paddle"] / ours_s
        result.append(
            Row(
                name,
                seconds(ours_s),
                f"paddle.profiler {seconds(found['paddle'])}",
                f"{ratio:.0f} × faster",
                "" if bar is None else f"≥ {bar:.0f} ×",
                None if bar is None else ratio >= bar,
            )
        )
    return result


if __name__ == "__main__":
    if len(sys.argv) == 2:
        print(json.dumps(measure(int(sys.argv[1]))))
    else:
        for row in rows():
            print(row)
