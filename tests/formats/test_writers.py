"""What other tools open: each file decoded by somebody else than its writer."""

from __future__ import annotations

import csv
import gzip
import json
import sys
from typing import TYPE_CHECKING, Any

import polars as pl
import pytest

from fuzzing.seeds import kineto_events, training
from proto_messages import message, messages, varints
from stepscope import export_trace, read_trace
from stepscope.errors import StepscopeError, UnsupportedError
from stepscope.formats.spans import send_spans
from stepscope.trace.kinds import SliceKind

if TYPE_CHECKING:
    from pathlib import Path

    from stepscope.trace.model import Trace


@pytest.fixture
def device_trace(tmp_path: Path) -> Trace:
    (tmp_path / "k.json").write_text(json.dumps(kineto_events()))
    return read_trace(tmp_path / "k.json")


class Pprof:
    """A profile, by the numbers of pprof's profile.proto."""

    def __init__(self, data: bytes) -> None:
        fields = message(gzip.decompress(data))
        self.texts = [text.decode() for text in fields[6]]
        self.types = [self.texts[message(field)[1][0]] for field in fields[1]]
        functions = {f[1][0]: self.texts[f[2][0]] for f in map(message, fields[5])}
        locations = {
            place[1][0]: functions[message(place[4][0])[1][0]] for place in map(message, fields[4])
        }
        self.samples = []
        for sample in map(message, fields[2]):
            stack = [locations[number] for number in varints(sample[1][0])] if 1 in sample else []
            labels = {
                self.texts[label[1][0]]: self.texts[label[2][0]]
                for label in map(message, sample.get(3, ()))
            }
            values = dict(zip(self.types, varints(sample[2][0]), strict=True))
            self.samples.append((stack, values, labels))

    def total(self, kind: str) -> int:
        return sum(values[kind] for _, values, _ in self.samples)


def test_pprof_of_samples(tmp_path: Path) -> None:
    trace = training()
    export_trace(trace, tmp_path / "a.pprof")
    export_trace(trace, tmp_path / "a.pprof.gz")
    assert (tmp_path / "a.pprof").read_bytes()[:2] == b"\x1f\x8b"
    for name in ("a.pprof", "a.pprof.gz"):
        profile = Pprof((tmp_path / name).read_bytes())
        assert profile.texts[0] == ""
        assert profile.types == ["samples", "time"]
        assert profile.total("samples") == len(trace.samples)
        assert profile.total("time") == int(trace.samples.duration_ns.sum())
        stacks = {tuple(stack) for stack, _, _ in profile.samples}
        assert ("forward", "step", "<module>") in stacks  # the innermost first
        assert {labels["state"] for _, _, labels in profile.samples} == {"native", "blocked"}


def test_pprof_of_slices_has_device_work_below_its_launch(
    device_trace: Trace, tmp_path: Path
) -> None:
    export_trace(device_trace, tmp_path / "a.pprof")
    profile = Pprof((tmp_path / "a.pprof").read_bytes())
    slices = device_trace.slices
    is_device = slices.kind == SliceKind.KERNEL
    assert profile.total("events") == len(device_trace)
    assert profile.total("device") >= int(slices.self_ns[is_device].sum()) > 0
    assert profile.total("device") + profile.total("host") == int(slices.self_ns.sum())
    launched = [stack for stack, values, _ in profile.samples if values["device"]]
    assert any("cudaLaunchKernel" in stack[1:] for stack in launched)


def test_firefox_profiles_are_consistent(tmp_path: Path) -> None:
    trace = training()
    export_trace(trace, tmp_path / "a.firefox.json")
    content = json.loads((tmp_path / "a.firefox.json").read_text())
    assert content["meta"]["preprocessedProfileVersion"] == 48
    categories = len(content["meta"]["categories"])
    markers = samples = 0
    for thread in content["threads"]:
        texts = thread["stringArray"]
        for name in ("frameTable", "funcTable", "stackTable", "markers", "samples"):
            table = thread[name]
            columns = [value for value in table.values() if isinstance(value, list)]
            assert {len(item) for item in columns} <= {table["length"]}, name
        stacks = thread["stackTable"]
        assert all(p is None or p < i for i, p in enumerate(stacks["prefix"]))
        assert all(f < thread["frameTable"]["length"] for f in stacks["frame"])
        assert all(n < len(texts) for n in thread["funcTable"]["name"])
        assert all(s is None or s < stacks["length"] for s in thread["samples"]["stack"])
        assert all(c < categories for c in thread["markers"]["category"])
        assert all(
            b >= a
            for a, b in zip(
                thread["markers"]["startTime"], thread["markers"]["endTime"], strict=True
            )
        )
        markers += thread["markers"]["length"]
        samples += thread["samples"]["length"]
    assert (markers, samples) == (len(trace), len(trace.samples))


def test_parquet_is_a_file_a_table(device_trace: Trace, tmp_path: Path) -> None:
    export_trace(device_trace, tmp_path / "a.parquet")
    slices = pl.read_parquet(tmp_path / "a.parquet" / "slices.parquet")
    assert slices["duration_ns"].sum() == int(device_trace.slices.duration_ns.sum())
    assert slices["name"].cast(pl.String).to_list() == list(device_trace.names())
    integers = pl.read_parquet(tmp_path / "a.parquet" / "integers.parquet")
    ours = device_trace.slices.args.integers["correlation"]
    theirs = integers.filter(pl.col("key").cast(pl.String) == "correlation")
    assert theirs["row"].to_list() == ours.rows.tolist()
    assert theirs["value"].to_list() == ours.values.tolist()
    with pytest.raises(StepscopeError, match="exists"):
        export_trace(device_trace, tmp_path / "a.parquet")


def test_csv_has_a_line_for_each_slice(device_trace: Trace, tmp_path: Path) -> None:
    export_trace(device_trace, tmp_path / "a.csv.gz")
    text = gzip.decompress((tmp_path / "a.csv.gz").read_bytes()).decode()
    rows = list(csv.DictReader(text.splitlines()))
    assert [row["name"] for row in rows] == list(device_trace.names())
    assert sum(int(row["duration_ns"]) for row in rows) == int(
        device_trace.slices.duration_ns.sum()
    )
    (kernel, *_) = (row for row in rows if row["kind"] == "kernel")
    assert json.loads(kernel["args"])["grid"] == [8, 1, 1]
    assert kernel["stream"] == "7"


def spans_of(path: Path) -> list[dict[str, Any]]:
    (resource,) = json.loads(path.read_text())["resourceSpans"]
    (scope,) = resource["scopeSpans"]
    spans: list[dict[str, Any]] = scope["spans"]
    return spans


def test_spans_are_ranges_steps_and_modules(tmp_path: Path) -> None:
    trace = training()
    export_trace(trace, tmp_path / "a.otlp.json")
    spans = {span["spanId"]: span for span in spans_of(tmp_path / "a.otlp.json")}
    assert len(spans) == 9  # three steps with a module call and an optimizer step each
    for span in spans.values():
        assert len(span["traceId"]) == 32
        if span["name"] == "Net":
            assert spans[span["parentSpanId"]]["name"].startswith("ProfilerStep#")
            attributes = {attribute["key"]: attribute["value"] for attribute in span["attributes"]}
            assert attributes["Class"] == {"stringValue": "Net"}
            took_ns = int(span["endTimeUnixNano"]) - int(span["startTimeUnixNano"])
            assert took_ns == 290_000


def test_spans_go_to_an_exporter_of_the_sdk(tmp_path: Path) -> None:
    memory = pytest.importorskip(
        "opentelemetry.sdk.trace.export.in_memory_span_exporter",
        reason="the OpenTelemetry SDK is not here",
    )
    exporter = memory.InMemorySpanExporter()
    assert send_spans(training(), exporter) == 9
    spans = exporter.get_finished_spans()
    by_id = {span.context.span_id: span for span in spans}
    net = next(span for span in spans if span.name == "Net")
    assert by_id[net.parent.span_id].name == "ProfilerStep#0"
    assert net.end_time - net.start_time == 290_000
    assert net.attributes["kind"] == "module"
    export_trace(training(), tmp_path / "a.otlp.json")
    values = {
        (span["name"], int(span["spanId"], 16)) for span in spans_of(tmp_path / "a.otlp.json")
    }
    assert values == {(span.name, span.context.span_id) for span in spans}


def test_without_the_sdk_the_error_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "opentelemetry.sdk.resources", None)
    monkeypatch.setitem(sys.modules, "opentelemetry", None)
    with pytest.raises(UnsupportedError, match="pip install opentelemetry-sdk"):
        send_spans(training(), None)


def test_every_suffix_is_in_the_help_of_an_unknown_one(tmp_path: Path) -> None:
    with pytest.raises(StepscopeError) as caught:
        export_trace(training(), tmp_path / "a.unknown")
    for suffix in (".pftrace", ".pprof", ".firefox.json", ".otlp.json", ".parquet", ".csv"):
        assert suffix in str(caught.value)


def test_messages_are_whole() -> None:
    """The decoder of these tests refuses what is cut off."""
    with pytest.raises((AssertionError, IndexError)):
        list(messages(b"\x0a\x05abc"))
