"""`stepscope view` on the command line: how it starts, how it ends, and what it does not take."""

from __future__ import annotations

import os
import re
import signal
import socket
import subprocess
import sys
from contextlib import contextmanager
from typing import TYPE_CHECKING
from urllib.request import urlopen

import pytest

from command_line import ENVIRONMENT
from stepscope import notices
from stepscope.cli import main
from viewing import saved

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@pytest.fixture(autouse=True)
def _every_line_is_new(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(notices, "_shown", set())


@contextmanager
def started(*words: str, cwd: Path, **environment: str) -> Iterator[subprocess.Popen[str]]:
    process = subprocess.Popen(
        [sys.executable, "-m", "stepscope", "view", *words],
        cwd=cwd,
        env={**ENVIRONMENT, "TMPDIR": str(cwd), **environment},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        yield process
    finally:
        process.kill()
        process.wait()


def printed_url(process: subprocess.Popen[str]) -> str:
    assert process.stdout is not None
    lines = [process.stdout.readline() for _ in range(3)]
    assert lines[0].startswith("Serving the traces of ")
    assert lines[2] == "Press Ctrl-C to stop.\n"
    url = lines[1].strip()
    assert re.fullmatch(r"http://127\.0\.0\.1:\d+/[\w-]{32}/", url)
    return url


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 0), (signal.SIGTERM, 143)])
def test_it_serves_until_it_is_ended(tmp_path: Path, number: int, code: int) -> None:
    saved(tmp_path / "runs" / "a.json")
    with started("runs", "--no-open", cwd=tmp_path) as process:
        url = printed_url(process)
        with urlopen(url + "traces.json", timeout=60) as answer:
            assert b'"a.json"' in answer.read()
        assert list(tmp_path.glob("stepscope-view-*"))
        process.send_signal(number)
        out, err = process.communicate(timeout=60)
    assert process.returncode == code
    assert (out, err) == ("", "")
    assert not list(tmp_path.glob("stepscope-view-*"))


def test_it_shows_the_present_folder_on_the_port_it_is_told(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    saved(tmp_path / "a.json")
    with started("--port", str(port), "--no-open", cwd=tmp_path) as process:
        url = printed_url(process)
        assert f":{port}/" in url
        with urlopen(url + "traces.json", timeout=60) as answer:
            assert b'"a.json"' in answer.read()


def test_the_browser_gets_a_ticket_and_not_the_token(tmp_path: Path) -> None:
    """Command lines can be read by every user of the machine."""
    result = tmp_path / "told"
    browser = tmp_path / "browser"
    os.mkfifo(result)
    browser.write_text(f'#!/bin/sh\necho "$1" > {result}\n')
    browser.chmod(0o755)
    with started(cwd=tmp_path, BROWSER=f"{browser} %s") as process:
        url = printed_url(process)
        ticket = result.read_text().strip()
        assert url.split("/")[3] not in ticket
        with urlopen(ticket, timeout=60) as page:
            assert page.url == url


def refused(capsys: pytest.CaptureFixture[str], *words: str) -> str:
    assert main(["view", *words]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    return line.removeprefix("stepscope: ")


def test_a_folder_that_is_missing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "none"
    assert refused(capsys, str(path)) == f"{path}: there is no such folder; check the name"


def test_a_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = saved(tmp_path / "a.json")
    assert refused(capsys, str(path)) == (
        f"{path} is a file; name its folder, or use `stepscope report` for this one trace"
    )


def test_a_single_trace_folder(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = saved(tmp_path / "a.stepscope")
    assert refused(capsys, str(path)) == (
        f"{path} is a trace; name its folder, or use `stepscope report` for this one trace"
    )


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
def test_a_folder_that_may_not_be_read(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "closed"
    path.mkdir(mode=0)
    assert refused(capsys, str(path)) == f"{path} cannot be read: Permission denied"


def test_a_port_that_is_taken(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        assert refused(capsys, str(tmp_path), "--port", str(port)) == (
            f"port {port} cannot be used: Address already in use; choose another, or omit --port"
        )


@pytest.mark.parametrize("port", ["65536", "-1", "http", "1.5", "٣"])
def test_what_is_no_port(tmp_path: Path, capsys: pytest.CaptureFixture[str], port: str) -> None:
    assert f"{port!r} is not a port; use 0 (any) to 65535" in refused(
        capsys, str(tmp_path), f"--port={port}"
    )
