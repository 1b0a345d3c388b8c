"""Ranges and steps as OpenTelemetry spans: for a file, or for an exporter of its SDK.

The file is OTLP's JSON (https://opentelemetry.io/docs/specs/otlp/#json-protobuf-encoding) for the
collector's file receiver. ``send_spans`` gives the same spans to an exporter of the OpenTelemetry
SDK, if that is installed.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from stepscope.errors import UnsupportedError
from stepscope.formats.base.files import output_file
from stepscope.formats.base.registry import Progress
from stepscope.formats.base.sampled import thread_titles
from stepscope.formats.chrome.write import json_text
from stepscope.trace.model import NO_PARENT, NO_STEP, SliceKind, Trace

_KINDS = (SliceKind.RANGE, SliceKind.STEP, SliceKind.MODULE)
_SERVICE = "stepscope"
_INTERNAL = 1  # a span that is neither a request nor an answer
_TRACE_ID_BYTES = 16
_SPANS_AT_A_TIME = 512
_INSTALL = "install it: pip install opentelemetry-sdk"


@dataclass(frozen=True, slots=True)
class _Span:
    """A span; its times are Unix time."""

    name: str
    number: int  # from 1
    parent: int  # 0: none
    start_ns: int
    end_ns: int
    attributes: dict[str, str | int | float | bool]


def export_spans(
    trace: Trace, path: str | os.PathLike[str], progress: Progress | None = None
) -> None:
    """Write the ranges, steps and module calls as OTLP JSON, compressed for ``.gz``."""
    trace_id = _trace_id(trace).hex()
    spans = [
        {
            "traceId": trace_id,
            "spanId": f"{span.number:016x}",
            **({"parentSpanId": f"{span.parent:016x}"} if span.parent else {}),
            "name": span.name,
            "kind": _INTERNAL,
            "startTimeUnixNano": str(span.start_ns),
            "endTimeUnixNano": str(span.end_ns),
            "attributes": _attributes(span.attributes),
        }
        for span in _spans(trace)
    ]
    scope = {"scope": {"name": _SERVICE}, "spans": spans}
    resource = {"attributes": _attributes(_resource(trace))}
    content = {"resourceSpans": [{"resource": resource, "scopeSpans": [scope]}]}
    with output_file(path) as sink:
        sink.write(json.dumps(content, ensure_ascii=False, separators=(",", ":")).encode())
    if progress is not None:
        progress(len(spans), len(spans))


def send_spans(trace: Trace, exporter: Any) -> int:
    """Give the ranges, steps and module calls to an exporter of the OpenTelemetry SDK.

    ``exporter`` is any ``SpanExporter``. Returns how many spans there were; the exporter is not
    shut down. Needs the package ``opentelemetry-sdk``.
    """
    try:
        from opentelemetry.sdk.resources import Resource
        from opentelemetry.sdk.trace import ReadableSpan
        from opentelemetry.sdk.trace.export import SpanExportResult
        from opentelemetry.sdk.util.instrumentation import InstrumentationScope
        from opentelemetry.trace import SpanContext, TraceFlags
    except ImportError as error:
        raise UnsupportedError(
            f"send_spans needs the OpenTelemetry SDK ({error}); {_INSTALL}"
        ) from None
    trace_id = int.from_bytes(_trace_id(trace))
    resource = Resource.create(_resource(trace))
    scope = InstrumentationScope(_SERVICE)

    def context(number: int) -> Any:
        return SpanContext(trace_id, number, False, TraceFlags(TraceFlags.SAMPLED))

    made = [
        ReadableSpan(
            name=span.name,
            context=context(span.number),
            parent=context(span.parent) if span.parent else None,
            resource=resource,
            attributes=span.attributes,
            start_time=span.start_ns,
            end_time=span.end_ns,
            instrumentation_scope=scope,
        )
        for span in _spans(trace)
    ]
    for first in range(0, len(made), _SPANS_AT_A_TIME):
        result = exporter.export(made[first : first + _SPANS_AT_A_TIME])
        if result is not SpanExportResult.SUCCESS:
            raise UnsupportedError(f"the exporter refused the spans from {first} on: {result}")
    return len(made)


def _trace_id(trace: Trace) -> bytes:
    """Return an id that is the same in each export of a trace."""
    info = trace.info
    seed = f"{info.host} {info.pid} {info.start_ns + info.wall_offset_ns} {info.end_ns}"
    return hashlib.blake2b(seed.encode(), digest_size=_TRACE_ID_BYTES).digest()


def _resource(trace: Trace) -> dict[str, str | int | float | bool]:
    info = trace.info
    attributes: dict[str, str | int | float | bool] = {"service.name": _SERVICE}
    if info.host:
        attributes["host.name"] = info.host
    if info.pid:
        attributes["process.pid"] = info.pid
    if info.rank is not None:
        attributes["rank"] = info.rank
    return attributes


def _spans(trace: Trace) -> Iterator[_Span]:
    slices, offset_ns = trace.slices, trace.info.wall_offset_ns
    rows = np.flatnonzero(np.isin(slices.kind, _KINDS))
    number = np.zeros(len(slices), np.int64)
    number[rows] = np.arange(1, len(rows) + 1)
    titles = thread_titles(trace)
    shift_ns = max(0, -(int(slices.start_ns[rows[0]]) + offset_ns)) if len(rows) else 0
    for row in rows.tolist():
        around = int(slices.parent[row])
        while around != NO_PARENT and not number[around]:
            around = int(slices.parent[around])
        start_ns = int(slices.start_ns[row]) + offset_ns + shift_ns
        step = int(slices.step[row])
        attributes: dict[str, str | int | float | bool] = {
            "thread": titles[int(slices.track[row])],
            "kind": SliceKind(int(slices.kind[row])).name.lower(),
            **({"step": step} if step != NO_STEP else {}),
        }
        for key, value in slices.args.of_row(row, trace.strings).items():
            plain = isinstance(value, str | int | float | bool)
            attributes.setdefault(key, value if plain else json_text(value))
        yield _Span(
            trace.name_of(row),
            int(number[row]),
            int(number[around]) if around != NO_PARENT else 0,
            start_ns,
            start_ns + int(slices.duration_ns[row]),
            attributes,
        )


def _attributes(pairs: dict[str, str | int | float | bool]) -> list[dict[str, Any]]:
    return [{"key": key, "value": _value(value)} for key, value in pairs.items()]


def _value(value: str | float | bool) -> dict[str, Any]:
    if isinstance(value, bool):
        return {"boolValue": value}
    if isinstance(value, int):
        return {"intValue": str(value)}
    return {"stringValue": value} if isinstance(value, str) else {"doubleValue": value}
