"""Files between Paddle and Stepscope: what one writes the other reads, event by event."""

from __future__ import annotations

import json
import threading
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

core = pytest.importorskip("paddle.base").core  # a folder of tests may be called paddle, too

import paddle  # noqa: E402

from stepscope.formats import read_trace  # noqa: E402
from stepscope.frameworks.paddle.dialect.result import load_profiler_result  # noqa: E402
from stepscope.frameworks.paddle.files.read_pb import read_paddle_pb  # noqa: E402
from stepscope.frameworks.paddle.files.write_json import export_paddle_json  # noqa: E402
from stepscope.frameworks.paddle.files.write_pb import export_paddle_pb  # noqa: E402

if TYPE_CHECKING:
    from pathlib import Path

    from stepscope.trace.model import Trace

HOST_ATTRIBUTES = (
    "name",
    "start_ns",
    "end_ns",
    "process_id",
    "thread_id",
    "correlation_id",
    "input_shapes",
    "dtypes",
    "callstack",
    "attributes",
    "op_id",
)
MEMORY_ATTRIBUTES = (
    "timestamp_ns",
    "addr",
    "process_id",
    "thread_id",
    "increase_bytes",
    "place",
    "current_allocated",
    "current_reserved",
    "peak_allocated",
    "peak_reserved",
)
EXACT_NS = 2**14 * 1000
# What Paddle's reader knows no name for; our file calls it by the nearest one that it does.
UNKNOWN_TO_PADDLE = {"DygraphKernelLaunch", "StaticKernelLaunch"}


def recorded(work: Any) -> Any:
    """Return Paddle's own result of a piece of work."""
    options = core.ProfilerOptions()
    options.trace_switch = 1
    profiler = core._Profiler.create(options, [])
    core.enable_memory_recorder()
    try:
        profiler.prepare()
        profiler.start()
        try:
            work()
        finally:
            result = profiler.stop()
    finally:
        core.disable_memory_recorder()
    return result


def train() -> None:
    linear = paddle.nn.Linear(13, 5)
    optimizer = paddle.optimizer.Momentum(learning_rate=0.1, parameters=linear.parameters())
    for step in range(3):
        event = core._RecordEvent(f"ProfileStep#{step}", core.TracerEventType.ProfileStep)
        linear(paddle.randn([2, 13])).backward()
        optimizer.step()
        optimizer.clear_grad()
        event.end()


@pytest.fixture(scope="module")
def result() -> Any:
    """A recording short enough for Paddle's JSON to be exact: its times are floats of 32 bits."""
    train()  # the first time, libraries are loaded
    for _ in range(200):
        profiler = recorded(train)
        (root,) = profiler.get_data().values()
        times = [(node.start_ns, node.end_ns) for node in root.children_node]
        if max(end for _, end in times) - min(start for start, _ in times) < EXACT_NS:
            return profiler
    pytest.skip("the machine is too busy to run three steps within 16 ms")


@pytest.fixture(scope="module")
def saved(result: Any, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("paddle")
    paths = {format: folder / f"run.{format}" for format in ("pb", "json")}
    for format, path in paths.items():
        result.save(str(path), format)
    return paths


def host_tree(node: Any, with_types: bool = True) -> tuple[Any, ...]:
    """Return everything that a node and those below it say, of either library."""
    kind = node.type.name
    if not with_types and kind in UNKNOWN_TO_PADDLE:
        kind = "OperatorInner"
    return (
        kind,
        [getattr(node, name) for name in HOST_ATTRIBUTES],
        [
            (memory.type.name, [getattr(memory, name) for name in MEMORY_ATTRIBUTES])
            for memory in node.mem_node
        ],
        [host_tree(call, with_types) for call in node.runtime_node],
        len(node.device_node),
        [host_tree(child, with_types) for child in node.children_node],
    )


def forest(result: Any, with_types: bool = True) -> dict[int, Any]:
    return {thread: host_tree(root, with_types) for thread, root in result.get_data().items()}


def test_a_protobuf_file_of_paddle_has_the_tree_that_paddle_showed(
    result: Any, saved: dict[str, Path]
) -> None:
    loaded = load_profiler_result(saved["pb"])
    assert forest(loaded) == forest(result)
    assert loaded.get_extra_info() == result.get_extra_info()
    assert loaded.get_version() == result.get_version()
    assert loaded.get_span_index() == result.get_span_index()


def test_peaks_are_paddles_where_another_thread_holds_memory(tmp_path: Path) -> None:
    """It looks at the sum of all threads only when one of them has more than ever before."""
    train()
    paddle.randn([2000])
    is_held, may_end = threading.Event(), threading.Event()

    def hold() -> None:
        paddle.randn([3000])
        tensor = paddle.randn([2900])
        is_held.set()
        may_end.wait()
        del tensor

    thread = threading.Thread(target=hold)
    thread.start()
    try:
        is_held.wait()
        result = recorded(train)
    finally:
        may_end.set()
        thread.join()
    result.save(str(tmp_path / "run.pb"), "pb")
    assert forest(load_profiler_result(tmp_path / "run.pb")) == forest(result)


def test_paddle_cannot_load_its_own_file_and_we_can(saved: dict[str, Path]) -> None:
    assert core.load_profiler_result(str(saved["pb"])) is None
    assert len(read_paddle_pb(saved["pb"])) > 100


def test_paddle_loads_our_file(result: Any, saved: dict[str, Path], tmp_path: Path) -> None:
    load_profiler_result(saved["pb"]).save(tmp_path / "ours.pb", "pb")
    loaded = core.load_profiler_result(str(tmp_path / "ours.pb"))
    assert forest(loaded) == forest(result, with_types=False)
    assert loaded.get_extra_info() == result.get_extra_info()
    assert loaded.get_version() == result.get_version()


def test_our_own_reader_gets_the_true_types_back(
    result: Any, saved: dict[str, Path], tmp_path: Path
) -> None:
    load_profiler_result(saved["pb"]).save(tmp_path / "ours.pb", "pb")
    assert forest(load_profiler_result(tmp_path / "ours.pb")) == forest(result)


def test_paddle_loads_every_event_type(tmp_path: Path) -> None:
    def work() -> None:
        for kind in core.TracerEventType.__members__.values():
            if kind.name not in {"CudaRuntime", "Kernel", "Memcpy", "Memset", "NumTypes"}:
                core._RecordEvent(f"a {kind.name}", kind).end()

    result = recorded(work)
    result.save(str(tmp_path / "theirs.pb"), "pb")
    trace = read_trace(tmp_path / "theirs.pb")
    export_paddle_pb(trace, tmp_path / "ours.pb")
    loaded = core.load_profiler_result(str(tmp_path / "ours.pb"))
    (root,) = loaded.get_data().values()
    types = {node.name: node.type.name for node in root.children_node}
    assert len(types) >= 12
    for name, kind in types.items():
        plain_name = name.removeprefix("a ")
        assert kind == ("OperatorInner" if plain_name in UNKNOWN_TO_PADDLE else plain_name)


def same_events(first: Trace, second: Trace) -> None:
    assert list(first.names()) == list(second.names())
    for column in ("start_ns", "duration_ns", "parent", "depth", "kind", "step"):
        np.testing.assert_array_equal(
            getattr(first.slices, column), getattr(second.slices, column), column
        )
    for column in ("size", "address", "allocated", "reserved", "slice"):
        np.testing.assert_array_equal(
            getattr(first.memory, column), getattr(second.memory, column), column
        )


def test_the_json_of_paddle_has_the_same_exact_times_as_its_protobuf(
    saved: dict[str, Path],
) -> None:
    protobuf, chrome = read_trace(saved["pb"]), read_trace(saved["json"])
    assert list(protobuf.names()) == list(chrome.names())
    for column in ("start_ns", "duration_ns", "parent"):
        np.testing.assert_array_equal(
            getattr(protobuf.slices, column), getattr(chrome.slices, column)
        )
    np.testing.assert_array_equal(protobuf.memory.size, chrome.memory.size)
    # Paddle cuts these times to whole microseconds.
    assert np.abs(protobuf.memory.time_ns - chrome.memory.time_ns).max() < 2000
    assert 0 <= protobuf.info.wall_offset_ns - chrome.info.wall_offset_ns < 1000
    assert protobuf.tracks == chrome.tracks


def test_our_json_has_the_events_and_fields_of_paddles(
    saved: dict[str, Path], tmp_path: Path
) -> None:
    trace = read_trace(saved["pb"])
    export_paddle_json(trace, tmp_path / "ours.json")
    theirs, ours = (
        json.loads(path.read_text(), parse_float=str)
        for path in (saved["json"], tmp_path / "ours.json")
    )
    assert {key: ours[key] for key in ours if key != "traceEvents"} == {
        key: theirs[key] for key in theirs if key != "traceEvents"
    }
    assert sorted(map(comparable, ours["traceEvents"])) == sorted(
        comparable(event) for event in theirs["traceEvents"] if event
    )
    same_events(trace, read_trace(tmp_path / "ours.json"))


def comparable(event: dict[str, Any]) -> str:
    """Return an event without what ours have more: the time within the microsecond, a scope."""
    event = {key: value for key, value in event.items() if key != "s"}
    if "ts" in event:
        event["ts"] = int(str(event["ts"]).split(".", maxsplit=1)[0])
    return json.dumps(event, sort_keys=True)


@pytest.mark.parametrize("name", ['a "quoted" name', "a \\ backslash", "two\nlines", "tab\there"])
def test_names_that_paddle_does_not_escape_are_read(name: str, tmp_path: Path) -> None:
    def work() -> None:
        core._RecordEvent(name, core.TracerEventType.PythonUserDefined).end()
        core._RecordEvent("after it", core.TracerEventType.PythonUserDefined).end()

    recorded(work).save(str(tmp_path / "raw.json"), "json")
    with pytest.raises(json.JSONDecodeError):
        json.loads((tmp_path / "raw.json").read_text())
    assert list(read_trace(tmp_path / "raw.json").names()) == [name, "after it"]
