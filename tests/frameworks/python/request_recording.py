"""What the tests of requests and tasks share: a recording, and clients that ask a server."""

from __future__ import annotations

import contextlib
import threading
import urllib.error
import urllib.request
from typing import TYPE_CHECKING, Any

import numpy as np

from recording import trace_of
from stepscope.frameworks.python.requests import Requests
from stepscope.record.session import Session

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from stepscope.trace.model import Trace


@contextlib.contextmanager
def requests_recorded() -> Iterator[Session]:
    session = Session([Requests()])
    session.start()
    try:
        yield session
    finally:
        session.stop()


def recorded(run: Callable[[], object]) -> Trace:
    with requests_recorded() as session:
        run()
    return trace_of(session)


def rows_of(trace: Trace, category: str) -> list[int]:
    ids = trace.strings.ids_of([category])
    return np.flatnonzero(trace.slices.category == ids.get(category, -1)).tolist()


def names_of(trace: Trace, category: str) -> list[str]:
    """Return the names of the slices of a category, in the order of their starts."""
    return [trace.name_of(row) for row in rows_of(trace, category)]


def fetched(port: int, path: str) -> str:
    """Ask a server of this machine; an error of HTTP is an answer, too."""
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}{path}", timeout=60) as answer:
            return str(answer.read().decode())
    except urllib.error.HTTPError as error:
        return str(error.code)


@contextlib.contextmanager
def serving(server: Any) -> Iterator[int]:
    """Let a server of the standard library, or like one, serve in a thread; yield its port."""
    thread = threading.Thread(target=server.serve_forever, name="server")
    thread.start()
    try:
        yield server.server_port if hasattr(server, "server_port") else server.server_address[1]
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
