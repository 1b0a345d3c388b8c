"""``stepscope info``: where a trace comes from and what it holds."""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator
from dataclasses import asdict
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from stepscope.cli.base.command import ExitCode, Parser
from stepscope.cli.base.json_output import json_text
from stepscope.trace.revision import revision_text
from stepscope.units import EARLIEST_UNIX_NS, count_text, duration_text

if TYPE_CHECKING:
    from stepscope.trace.model import Trace

_LONGEST_VALUE = 60
_TRACKS_SHOWN = 12


class Info:
    """Show where a trace comes from and what it holds.

    TRACE is a folder that `stepscope run` wrote, or a trace file of torch.profiler, Kineto or
    Chrome, compressed or not.
    """

    name = "info"

    def add_arguments(self, parser: Parser) -> None:
        parser.add_argument("trace", metavar="TRACE")
        parser.add_argument("--json", action="store_true", help="print it as JSON instead")

    def run(self, args: argparse.Namespace) -> ExitCode:
        from stepscope.cli.base.files import read
        from stepscope.cli.base.printing import print_title, show_facts
        from stepscope.cli.base.show import facts, headline

        trace = read(args.trace)
        if args.json:
            print(json_text("info", _as_json(trace)), end="", flush=True)
            return 0
        print_title(f"{args.trace}: {headline(trace)}")
        show_facts([*_origin(trace), *facts(trace), *_contents(trace)])
        return 0


def _as_json(trace: Trace) -> dict[str, Any]:
    import numpy as np

    from stepscope.trace.model import SliceKind

    kinds = np.bincount(trace.slices.kind, minlength=len(SliceKind))
    events = {name: table for name, table in trace.tables().items() if table.times_ns is not None}
    return {
        **{key: value for key, value in asdict(trace.info).items() if key != "user"},
        "metadata": dict(trace.info.user),
        "rows": {name: len(table) for name, table in events.items()},
        "kinds": {kind.name.lower(): int(kinds[kind]) for kind in SliceKind if kinds[kind]},
        "tracks": [asdict(track) for track in trace.tracks],
    }


def _origin(trace: Trace) -> Iterator[tuple[str, str]]:
    info = trace.info
    yield "producer", info.producer or "unknown"
    if info.host:
        yield "host", info.host
    if info.pid:
        yield "process", str(info.pid)
    if info.rank is not None:
        of = "" if info.world_size is None else f" of {info.world_size}"
        yield "rank", f"{info.rank}{of}"
    if info.versions:
        yield "versions", ", ".join(f"{name} {text}" for name, text in info.versions.items())
    if info.revision:
        yield "revision", revision_text(info.revision)
    yield "began", _wall_time(trace)
    yield "clock", f"{duration_text(info.start_ns)} to {duration_text(info.end_ns)}"


def _wall_time(trace: Trace) -> str:
    unix_ns = trace.info.start_ns + trace.info.wall_offset_ns
    if unix_ns < EARLIEST_UNIX_NS:
        return "unknown: the trace does not relate its clock to wall time"
    try:
        return f"{datetime.fromtimestamp(unix_ns / 1e9, UTC):%Y-%m-%d %H:%M:%S} UTC"
    except (OverflowError, ValueError, OSError):
        return f"unknown: {unix_ns:,} ns after 1970 is not a valid date"


def _contents(trace: Trace) -> Iterator[tuple[str, str]]:
    import numpy as np

    from stepscope.trace.model import PRODUCER, SliceKind

    kinds = np.bincount(trace.slices.kind, minlength=len(SliceKind))
    words = [f"{kinds[kind]:,} {kind.name.lower()}" for kind in SliceKind if kinds[kind]]
    yield "slices", ", ".join(words) or "none"
    if len(trace.marks):
        yield "marks", _marks(trace)
    if trace.info.producer == PRODUCER and not trace.info.losses.events:
        yield "lost", "nothing"
    yield from _tracks(trace)
    if trace.info.user:
        yield "metadata", count_text(len(trace.info.user), "key")
    for key, value in trace.info.user.items():
        yield f"  {key}", _shortened(value)


def _marks(trace: Trace) -> str:
    import numpy as np

    words = {
        "s": "flow starts",
        "t": "flow steps",
        "f": "flow ends",
        "i": "instants",
        "I": "instants",
        "C": "counter values",
    }
    counts: dict[str, int] = {}
    phases, numbers = np.unique(trace.marks.phase, return_counts=True)
    for phase, number in zip(phases, numbers, strict=True):
        word = words.get(chr(phase), f"of phase {chr(phase)!r}")
        counts[word] = counts.get(word, 0) + int(number)
    return ", ".join(f"{number:,} {word}" for word, number in counts.items())


def _tracks(trace: Trace) -> Iterator[tuple[str, str]]:
    import numpy as np

    events = np.bincount(trace.slices.track, minlength=len(trace.tracks))
    busy = [int(row) for row in np.argsort(-events, kind="stable") if events[row]]
    yield "tracks", f"{len(busy)} with events, {len(trace.tracks) - len(busy)} without"
    for row in busy[:_TRACKS_SHOWN]:
        track = trace.tracks[row]
        names = " · ".join(name for name in (track.process_name, track.thread_name) if name)
        place = f"{track.pid}/{track.tid}"
        yield f"  {place}", f"{count_text(int(events[row]), 'event')}  {names}"
    if len(busy) > _TRACKS_SHOWN:
        yield "  ...", f"and {len(busy) - _TRACKS_SHOWN} more"


def _shortened(value: Any) -> str:
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    return text if len(text) <= _LONGEST_VALUE else f"{text[:_LONGEST_VALUE]}..."
