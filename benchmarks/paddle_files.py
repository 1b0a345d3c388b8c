"""Files of Paddle's formats: our writing beside Paddle's own, and beside google.protobuf."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

import paddle
from common import in_turn_s
from paddle.base import core
from rows import Row, faster_row

import stepscope

if TYPE_CHECKING:
    from stepscope import Trace

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
    suffix = {"json": "paddle_trace.json", "pb": "pb"}[format]
    theirs, ours = folder / f"theirs.{suffix}", folder / f"ours.{suffix}"
    times = in_turn_s(
        {
            "paddle": lambda: result.save(str(theirs), format),
            "ours": lambda: stepscope.export_trace(trace, ours),
        },
        rounds=8,
    )
    what = f"Paddle's {format}, {len(trace) // 1000}k events"
    return faster_row(what, times["ours"], times["paddle"], "paddle.profiler", bar)


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


def protobuf_rows(trace: Trace, source: Path, folder: Path) -> list[Row]:
    """Show why the protobuf package is not used: an object an event is what it costs.

    Ours makes the whole Trace or takes it apart, protobuf only its own objects.
    """
    events = read_with_protobuf(source.read_bytes())
    target = folder / "written.pb"
    times = in_turn_s(
        {
            "read": lambda: stepscope.read_trace(source),
            "protobuf reads": lambda: read_with_protobuf(source.read_bytes()),
            "write": lambda: stepscope.export_trace(trace, target),
            "protobuf writes": lambda: target.write_bytes(write_with_protobuf(events)),
        },
        rounds=3,
    )
    return [
        faster_row(
            f"{verb} Paddle's pb, {len(trace) // 1000}k events",
            times[verb],
            times[f"protobuf {verb}s"],
            "google.protobuf",
            None,
        )
        for verb in ("read", "write")
    ]


def rows(quick: bool = False) -> list[Row]:
    """Measure both formats."""
    result = training_result(EVENTS // 10 if quick else EVENTS)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        source = folder / "run.pb"
        result.save(str(source), "pb")
        trace = stepscope.read_trace(source)
        return [
            export_row("json", 3, result, trace, folder),
            export_row("pb", 1, result, trace, folder),
            *protobuf_rows(trace, source, folder),
        ]
