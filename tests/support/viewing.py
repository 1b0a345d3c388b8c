"""A folder of traces and the server that shows it, for the tests of `stepscope view`."""

from __future__ import annotations

import http.client
import json
import os
import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import urlsplit

from made_trace import Bytes, Call, trace_of_calls
from stepscope.formats.chrome.write import export_chrome
from stepscope.trace.model import save_trace as save
from stepscope.view.folder import Folder
from stepscope.view.library import Library
from stepscope.view.server import ViewServer

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from stepscope.trace.model import Trace

NOW_S = 1_700_000_000  # of the folder's clock
LONG_AGO_S = NOW_S - 3600


def small_trace(*names: str) -> Trace:
    """Return two steps of 10 ms with 3 ms of the first operator and 1 ms of each other."""
    names = names or ("aten::mm", "aten::add")
    calls = []
    for step in range(2):
        at = step * 10_000
        calls.append(Call(f"ProfilerStep#{step}", at, at + 10_000, category="user_annotation"))
        for i, name in enumerate(names):
            start = at + 4_000 * i
            calls.append(Call(name, start, start + (1_000 if i else 3_000)))
    return trace_of_calls(calls, [Bytes(100, 4096), Bytes(200, -4096)], end_ns=20_000_000)


def written(path: Path, age_s: float = 3600) -> Path:
    """Let a file or folder have been written a while ago."""
    time_s = NOW_S - age_s
    for part in [*path.glob("*"), path] if path.is_dir() else [path]:
        os.utime(part, (time_s, time_s))
    return path


def saved(path: Path, trace: Trace | None = None, age_s: float = 3600) -> Path:
    """Write a trace: a folder or JSON, as the suffix says."""
    path.parent.mkdir(parents=True, exist_ok=True)
    (save if path.suffix == ".stepscope" else export_chrome)(
        small_trace() if trace is None else trace, path
    )
    return written(path, age_s)


def folder_at(root: Path) -> Folder:
    """Return a folder whose clock stands still."""
    return Folder(root, lambda: NOW_S * 1_000_000_000)


class Answer(NamedTuple):
    """What the server said."""

    status: int
    headers: dict[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        """Return the body's value."""
        return json.loads(self.body)


class Viewed:
    """A server, and a client that sends what it is told to."""

    def __init__(self, server: ViewServer) -> None:
        """Talk to a server that runs."""
        self.server = server
        self.port = server.server_port
        self.root = urlsplit(server.url).path

    def ask(self, path: str, method: str = "GET", hosts: tuple[str, ...] | None = None) -> Answer:
        """Send a path as it stands."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)
        connection.putrequest(method, path, skip_host=True, skip_accept_encoding=True)
        for host in (f"127.0.0.1:{self.port}",) if hosts is None else hosts:
            connection.putheader("Host", host)
        connection.endheaders()
        answer = connection.getresponse()
        result = Answer(answer.status, dict(answer.getheaders()), answer.read())
        connection.close()
        return result

    def get(self, path: str) -> Answer:
        """Ask for something with the token."""
        return self.ask(self.root + path)

    def settle(self) -> None:
        """Wait until all that is being found out and built is done."""
        done = threading.Event()
        self.server.library._worker.submit(done.set)
        assert done.wait(60)

    def traces(self) -> list[dict[str, Any]]:
        """Return the list of traces, their figures known."""
        self.get("traces.json")
        self.settle()
        traces: list[dict[str, Any]] = self.get("traces.json").json["traces"]
        return traces


@contextmanager
def viewing(root: Path) -> Iterator[Viewed]:
    """Serve a folder for as long as the block lasts."""
    with Library(folder_at(root), fresh_s=0) as library, ViewServer(library, 0) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        try:
            yield Viewed(server)
        finally:
            server.shutdown()
            thread.join()
