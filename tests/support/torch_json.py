"""A slow and obvious reading of torch.profiler's JSON, to hold the native code against."""

from __future__ import annotations

import json
from dataclasses import replace
from decimal import Decimal
from typing import Any

import numpy as np

from stepscope.trace.build import build
from stepscope.trace.model import Trace, TraceInfo, Track
from stepscope.trace.schema import Captured, Slices
from stepscope.trace.strings import Strings


def load_json(text: str | bytes) -> dict[str, Any]:
    """Parse JSON strictly: no NaN, no repeated key; fractions stay exact."""

    def no_repeats(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        keys = [key for key, _ in pairs]
        assert len(set(keys)) == len(keys), f"repeated key in {keys}"
        return dict(pairs)

    def no_constant(word: str) -> None:
        raise AssertionError(f"{word} is not JSON")

    document = json.loads(
        text, parse_float=Decimal, parse_constant=no_constant, object_pairs_hook=no_repeats
    )
    assert isinstance(document, dict)
    return document


def ns(microseconds: Decimal | int) -> int:
    return int(microseconds * 1000)


def recording_from_torch(document: dict[str, Any]) -> Trace:
    """Return the operators of a torch.profiler trace as if we had recorded them."""
    events = [e for e in document["traceEvents"] if e["ph"] == "X" and e.get("cat") != "Trace"]
    texts = list(dict.fromkeys(["", *(e["name"] for e in events), *(e["cat"] for e in events)]))
    ids = {text: i for i, text in enumerate(texts)}
    tracks = list(dict.fromkeys((str(e["pid"]), str(e["tid"])) for e in events))
    main_thread = str(document.get("main_thread", tracks[0][1] if tracks else ""))

    def numbers(key: str) -> Any:
        return np.array([e["args"].get(key, -1) for e in events], np.int64)

    raw = Slices.of(
        category=np.array([ids[e["cat"]] for e in events], np.uint32),
        name=np.array([ids[e["name"]] for e in events], np.uint32),
        start_ns=np.array([ns(e["ts"]) for e in events], np.int64),
        duration_ns=np.array([ns(e["dur"]) for e in events], np.int64),
        track=np.array([tracks.index((str(e["pid"]), str(e["tid"]))) for e in events], np.uint32),
        sequence=numbers("Sequence number"),
        forward_thread=numbers("Fwd thread id"),
    )
    named = (Track(pid, tid, "python", f"thread {tid} (python)", "CPU") for pid, tid in tracks)
    trace = build(
        Captured(raw, tuple(named), Strings.of(texts)),
        TraceInfo("stepscope", wall_offset_ns=document["baseTimeNanoseconds"]),
    )
    numbered = [
        replace(track, logical_id=1 if track.tid == main_thread else index + 2)
        for index, track in enumerate(trace.tracks)
    ]
    return replace(trace, tracks=tuple(numbered))


def header_of(document: dict[str, Any]) -> dict[str, Any]:
    """Return everything but the events, with plain floats."""
    pairs = {key: value for key, value in document.items() if key != "traceEvents"}
    header = json.loads(json.dumps(pairs, default=float))
    assert isinstance(header, dict)
    return header
