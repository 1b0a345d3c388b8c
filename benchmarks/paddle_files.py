"""Files of Paddle's formats: our writing beside Paddle's own, and beside google.protobuf."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

import paddle
from common import Row, interleaved_ns, seconds, timed_ns
from paddle.base import core

from stepscope import _native
from stepscope.formats import read_trace
from stepscope.frameworks.paddle.files.write_json import export_paddle_json
from stepscope.frameworks.paddle.files.write_pb import export_paddle_pb, paddle_pb

if TYPE_CHECKING:
    from stepscope.trace.model import Trace

EVENTS = 100_000
EVENTS_A_STEP = 33

# Of Paddle's message only what every event has: google.protobuf gets less to do than we.
_FIELDS = {
    "File": "version:9 span_index:13 *trees:Tree",
    "Tree": "thread_id:4 *nodes:Node",
    "Node": "id:3 parentid:3 event:Event",
    "Event": "name:9 type:13 start_ns:4 end_ns:4 process_id:4 thread_id:4",
}


def training_result(events: int) -> Any:
    """Return Paddle's result of a training loop of about so many events."""
    linear = paddle.nn.Linear(13, 5)
    optimizer = paddle.optimizer.Momentum(learning_rate=0.1, parameters=linear.parameters())
    options = core.ProfilerOptions()
    options.trace_switch = 1
    profiler = core._Profiler.create(options, [])
    core.enable_memory_recorder()
    profiler.prepare()
    profiler.start()
    for _ in range(events // EVENTS_A_STEP):
        linear(paddle.randn([2, 13])).backward()
        optimizer.step()
        optimizer.clear_grad()
    result = profiler.stop()
    core.disable_memory_recorder()
    return result


def export_row(format: str, bar: float, result: Any, trace: Trace, folder: Path) -> Row:
    """Time both exports of the same events in turn."""
    export = {"json": export_paddle_json, "pb": export_paddle_pb}[format]
    theirs, ours = folder / f"theirs.{format}", folder / f"ours.{format}"
    best = interleaved_ns(
        {
            "paddle": lambda: timed_ns(lambda: result.save(str(theirs), format)),
            "ours": lambda: timed_ns(lambda: export(trace, ours)),
        },
        rounds=5,
    )
    ratio = best["paddle"] / best["ours"]
    return Row(
        f"Paddle's {format}, {len(trace) // 1000}k events",
        seconds(best["ours"] * 1e-9),
        f"paddle.profiler {seconds(best['paddle'] * 1e-9)}",
        f"{ratio:.1f} × faster",
        f"≥ {bar:g} ×",
        ratio >= bar,
    )


def message_class() -> Any:
    """Return google.protobuf's class for the file."""
    from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

    schema = descriptor_pb2.FileDescriptorProto(name="f.proto", package="f", syntax="proto2")
    for name, fields in _FIELDS.items():
        message = schema.message_type.add(name=name)
        for number, words in enumerate(fields.split(), 1):
            field_name, kind = words.lstrip("*").split(":")
            field = message.field.add(name=field_name, number=number)
            field.label = 3 if words[0] == "*" else 1
            field.type = int(kind) if kind.isdecimal() else 11
            if kind in _FIELDS:
                field.type_name = f".f.{kind}"
    pool = descriptor_pool.DescriptorPool()
    pool.Add(schema)
    return message_factory.GetMessageClass(pool.FindMessageTypeByName("f.File"))


def read_with_protobuf(data: bytes) -> list[tuple[Any, ...]]:
    """Return the columns' values, which is what a reader needs."""
    return [
        (event.name, event.type, event.start_ns, event.end_ns, event.process_id, event.thread_id)
        for tree in message_class().FromString(data).trees
        for event in (node.event for node in tree.nodes)
    ]


def write_with_protobuf(events: list[tuple[Any, ...]]) -> bytes:
    """Write the same events."""
    file = message_class()(version="1.0.2", span_index=0)
    tree = file.trees.add(thread_id=1)
    for number, (name, kind, start_ns, end_ns, process, thread) in enumerate(events):
        event = tree.nodes.add(id=number, parentid=0).event
        event.name, event.type, event.start_ns, event.end_ns = name, kind, start_ns, end_ns
        event.process_id, event.thread_id = process, thread
    data: bytes = file.SerializeToString()
    return data


def protobuf_rows(trace: Trace, data: bytes) -> list[Row]:
    """Show why the protobuf package is not used: an object an event is what it costs."""
    events = read_with_protobuf(data)
    best = interleaved_ns(
        {
            "read": lambda: timed_ns(lambda: _native.read_paddle_trees(data)),
            "protobuf reads": lambda: timed_ns(lambda: read_with_protobuf(data)),
            "write": lambda: timed_ns(lambda: paddle_pb(trace)),
            "protobuf writes": lambda: timed_ns(lambda: write_with_protobuf(events)),
        },
        rounds=3,
    )
    return [
        Row(
            f"{verb} Paddle's pb, {len(trace) // 1000}k events",
            seconds(best[verb] * 1e-9),
            f"google.protobuf {seconds(best[f'protobuf {verb}s'] * 1e-9)}",
            f"{best[f'protobuf {verb}s'] / best[verb]:.1f} × faster",
            "shown",
            None,
        )
        for verb in ("read", "write")
    ]


def rows(events: int = EVENTS) -> list[Row]:
    """Measure both formats."""
    result = training_result(events)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        source = folder / "run.pb"
        result.save(os.fspath(source), "pb")
        trace = read_trace(source)
        return [
            export_row("json", 3, result, trace, folder),
            export_row("pb", 1, result, trace, folder),
            *protobuf_rows(trace, source.read_bytes()),
        ]


if __name__ == "__main__":
    for row in rows():
        print(row)
