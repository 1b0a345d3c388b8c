"""Records the requests that a server handles, and the tasks of asyncio."""

from __future__ import annotations

import functools
import os

from stepscope import _native
from stepscope.frameworks.python.options import REQUESTS
from stepscope.frameworks.python.servers import servers
from stepscope.record.source import Source


class Requests(Source):
    name = "requests"
    when = REQUESTS

    def __init__(self) -> None:
        self._servers = servers()

    def start(self) -> None:
        _set_up_once()
        _native.start_tasks()
        for server in self._servers:
            server.start()

    def stop(self) -> None:
        for server in self._servers:
            server.stop()
        _native.stop_tasks()


@functools.cache
def _set_up_once() -> None:
    os.register_at_fork(after_in_child=_native.forget_tasks_after_fork)
