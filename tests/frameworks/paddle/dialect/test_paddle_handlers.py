"""The handlers that write a file a trace, and where they write it."""

from __future__ import annotations

import json
import os
import re
import socket
from pathlib import Path
from typing import Any

import pytest

from stepscope.paddle import Profiler, RecordEvent, export_chrome_tracing, export_protobuf

TIME = r"\d{4}_\d\d_\d\d_\d\d_\d\d_\d\d_\d{6}"
HANDLERS = {"json": export_chrome_tracing, "pb": export_protobuf}


@pytest.fixture(autouse=True)
def _in_an_empty_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def record(on_trace_ready: Any, steps: int = 2) -> Profiler:
    """Record each step as a cycle of its own."""

    def last_of_a_cycle(step: int) -> Any:
        from stepscope.paddle import ProfilerState

        return ProfilerState.RECORD_AND_RETURN if step < steps else ProfilerState.CLOSED

    with Profiler(scheduler=last_of_a_cycle, on_trace_ready=on_trace_ready) as prof:
        for _ in range(steps):
            with RecordEvent("work"):
                pass
            prof.step()
    return prof


@pytest.mark.parametrize("suffix", HANDLERS)
def test_the_files_are_named_after_host_process_and_time(suffix: str) -> None:
    record(HANDLERS[suffix]("log"))
    files = sorted(path.name for path in Path("log").iterdir())
    worker = re.escape(f"host_{socket.gethostname()}pid_{os.getpid()}")
    assert len(files) == 2
    for name in files:
        assert re.fullmatch(rf"{worker}_time_{TIME}\.paddle_trace\.{suffix}", name)


@pytest.mark.parametrize("suffix", HANDLERS)
def test_the_files_are_named_after_the_worker(suffix: str) -> None:
    record(HANDLERS[suffix](Path("a") / "b", "worker 0"), steps=1)
    (path,) = Path("a/b").iterdir()
    assert re.fullmatch(rf"worker 0_time_{TIME}\.paddle_trace\.{suffix}", path.name)


def test_the_json_holds_the_ranges() -> None:
    record(export_chrome_tracing("log"), steps=1)
    (path,) = Path("log").iterdir()
    events = json.loads(path.read_text(encoding="utf-8"))["traceEvents"]
    names = [event["name"] for event in events if event.get("ph") == "X"]
    assert [name.partition("[")[0] for name in names] == ["ProfileStep#0", "work"]


def test_the_protobuf_can_be_loaded() -> None:
    record(export_protobuf("log"), steps=1)
    (path,) = Path("log").iterdir()
    from stepscope.paddle import load_profiler_result

    (root,) = load_profiler_result(str(path)).get_data().values()
    (step,) = root.children_node
    assert (step.name, [node.name for node in step.children_node]) == ("ProfileStep#0", ["work"])


@pytest.mark.parametrize("worker", ["../../x", "/tmp/x", "a/b", "x\0y", "..", "w" * 5000, "\ud800"])
def test_whatever_the_worker_is_called_the_file_is_in_the_folder(worker: str) -> None:
    record(export_chrome_tracing("log", worker), steps=1)
    assert [path.name for path in Path().iterdir()] == ["log"]
    (path,) = Path("log").iterdir()
    assert path.is_file()


@pytest.mark.parametrize("handler", HANDLERS.values())
def test_a_handler_alone_makes_no_folder(handler: Any) -> None:
    handler("log")
    assert not Path("log").exists()


def test_by_default_the_folder_is_profiler_log() -> None:
    record(None, steps=1)
    (path,) = Path("profiler_log").iterdir()
    assert path.name.endswith(".paddle_trace.json")


def test_no_folder_without_something_to_write() -> None:
    """Paddle makes it at construction, even with timer_only."""
    with Profiler(timer_only=True) as prof:
        prof.step()
    with Profiler(scheduler=(5, 9)) as prof:
        prof.step()
    assert list(Path().iterdir()) == []


def test_a_folder_that_cannot_be_made_is_a_clear_error() -> None:
    Path("file").touch()
    with pytest.raises(RuntimeError, match="Can not create directory 'file/log'"):
        record(export_chrome_tracing("file/log"), steps=1)
