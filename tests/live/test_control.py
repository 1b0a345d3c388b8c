"""The control socket: what a program's owner may ask, and what others and garbage get."""

from __future__ import annotations

import json
import os
import socket
import stat
from typing import TYPE_CHECKING

import pytest

import stepscope
from recording import start_python
from stepscope import Last, record_function
from stepscope.cli.base.options import last, signal_number, times
from stepscope.cli.environment import words_of
from stepscope.errors import StepscopeError
from stepscope.live.client import ask, living
from stepscope.live.runtime import runtime_folder

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture(autouse=True)
def _own_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("STEPSCOPE_RUNTIME_DIR", str(tmp_path / "run"))
    monkeypatch.chdir(tmp_path)


def test_a_program_that_serves_is_listed_and_captured(tmp_path: Path) -> None:
    with stepscope.serve(keep=Last(seconds=60), sample=False):
        with record_function("ProfilerStep#3"):
            pass
        (result,) = living()
        assert result["pid"] == os.getpid()
        assert result["recording"] == "ring"
        assert [step[0] for step in ask(os.getpid(), {"do": "steps"})["steps"]] == [3]
        path = tmp_path / "x.stepscope"
        request = {"do": "capture", "path": str(path), "reason": "a test"}
        assert ask(os.getpid(), request, 60)["path"] == str(path)
        trace = stepscope.read_trace(path)
        assert trace.info.user["capture"]["reason"] == "a test"
        assert len(trace) == 1
        for wrong in ({"no_such": 1}, {"stacks": "no_such"}, {"torch_collector": "no_such"}):
            with pytest.raises(StepscopeError, match="no_such"):
                ask(os.getpid(), {"do": "capture", "options": wrong})
    assert living() == []
    with pytest.raises(StepscopeError, match="stepscope ps"):
        ask(os.getpid(), {"do": "status"})


def test_the_rank_is_the_launchers_whoever_that_is(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in (("RANK", "2"), ("SIZE", "4")):
        monkeypatch.setenv(f"OMPI_COMM_WORLD_{name}", value)
    monkeypatch.setenv("PMIX_NAMESPACE", "prterun-1@1")
    with stepscope.serve(keep=Last(seconds=60), sample=False):
        (result,) = living()
        assert (result["rank"], result["world_size"], result["job"]) == ("2", "4", "prterun-1@1")
        answer = ask(os.getpid(), {"do": "capture"}, 60)
    assert answer["rank"] == "2"
    assert "-rank2-" in answer["path"]


def test_without_a_ring_it_is_recorded_from_now_on(tmp_path: Path) -> None:
    with stepscope.serve():
        (result,) = living()
        assert result["recording"] == ""
        path = tmp_path / "x.stepscope"
        request = {"do": "capture", "seconds": 0.05, "path": str(path)}
        ask(os.getpid(), request, 60)
        assert stepscope.read_trace(path).info.end_ns > 0


def test_what_is_asked_for_from_outside_is_recorded() -> None:
    pytest.importorskip("torch")
    with stepscope.serve():
        options = {"torch_collector": "kineto", "stacks": "operators"}
        request = {"do": "capture", "seconds": 0.05, "options": options}
        answer = ask(os.getpid(), request, 60)
    assert "requested" in stepscope.read_trace(answer["path"]).info.sources["torch"]


def test_only_the_owner_gets_in_and_garbage_does_not_disturb() -> None:
    with stepscope.serve():
        folder = runtime_folder()
        (path,) = folder.iterdir()
        assert stat.S_IMODE(folder.stat().st_mode) == 0o700
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
        half_open = [_connected(path) for _ in range(40)]
        for garbage in (b"\xff\x00\n", b"[]\n", b'{"do": {}}\n', b'{"do": "capture", "path": 3}\n'):
            with _connected(path) as line:
                line.sendall(garbage)
                assert "error" in json.loads(line.recv(1000))
        with _connected(path) as line, pytest.raises(OSError):
            for _ in range(200):
                line.sendall(b"x" * 10_000)
        assert [item["pid"] for item in living()] == [os.getpid()]
        for line in half_open:
            line.close()


def test_a_forked_child_does_not_answer_for_its_parent() -> None:
    with stepscope.serve():
        child = os.fork()
        if not child:
            os._exit(0 if stepscope.live.server._servers == [] else 1)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
        assert len(living()) == 1


def test_words_for_the_command_line_and_the_environment() -> None:
    assert last("60s") == Last(seconds=60)
    assert last("2m") == Last(seconds=120)
    assert last("200MB") == Last(bytes=200 << 20)
    assert times("2x") == 2.0
    assert signal_number("usr2") == 12
    for wrong in ("60", "fast", "0s"):
        with pytest.raises(Exception, match=wrong):
            last(wrong)
    words = ["--last", "60s", "--on-slow-step", "2x", "--quiet"]
    assert words_of("run:last=60s,on-slow-step=2x,quiet") == words
    with pytest.raises(StepscopeError, match="run"):
        words_of("walk")


def _connected(path: Path) -> socket.socket:
    line = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    line.settimeout(20)
    line.connect(str(path))
    return line


def test_the_last_program_takes_the_folder_away_while_others_come(
    tmp_path: Path,
) -> None:
    come_and_go = """
        import stepscope
        for _ in range(100):
            stepscope.serve().close()
        """
    environment = {"STEPSCOPE_RUNTIME_DIR": None, "XDG_RUNTIME_DIR": None, "TMPDIR": str(tmp_path)}
    programs = [start_python(come_and_go, **environment) for _ in range(3)]
    assert [program.communicate() for program in programs] == [("", "")] * 3
    assert list(tmp_path.iterdir()) == []
