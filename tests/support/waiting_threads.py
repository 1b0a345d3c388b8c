"""Threads that wait, each for something else, while they are sampled: a program of its own.

When the kernel says that all of them wait, they are looked at some times more. It prints the last
sample of each.
"""

from __future__ import annotations

import json
import os
import select
import socket
import subprocess
import sys
import threading
import time
from pathlib import Path

from sampling import sampling, seen
from stepscope.trace.kinds import ThreadState

FOREVER_S = 1e6

gate = threading.Lock()
gate.acquire()
ends, full = os.pipe(), os.pipe()
here, there = socket.socketpair()
timed, other = socket.socketpair()
server = socket.create_server(("localhost", 0))
waiter = select.epoll()
waiter.register(ends[0], select.EPOLLIN)
child = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)


def sleep() -> None:
    time.sleep(FOREVER_S)


def select_nothing() -> None:
    select.select([], [], [], FOREVER_S)


def lock() -> None:
    gate.acquire()


def timed_lock() -> None:
    gate.acquire(timeout=FOREVER_S)


def with_lock() -> None:
    with gate:
        pass


def event() -> None:
    threading.Event().wait()


def pipe() -> None:
    os.read(ends[0], 1)


def full_pipe() -> None:
    os.write(full[1], bytes(1 << 20))


def a_socket() -> None:
    here.recv(1)


def connection() -> None:
    server.accept()


def timed_socket() -> None:
    timed.settimeout(FOREVER_S)
    timed.recv(1)


def process() -> None:
    child.wait()


def poll() -> None:
    select.select([ends[0], here], [], [])


def epoll() -> None:
    waiter.poll()


WORKS = (
    *(sleep, select_nothing, lock, timed_lock, with_lock, event, pipe, full_pipe),
    *(a_socket, connection, timed_socket, process, poll, epoll),
)


def _waits(thread: threading.Thread) -> bool:
    text = Path(f"/proc/self/task/{thread.native_id}/syscall").read_text()
    return text.split()[0] not in {"running", "-1"}


def main() -> None:
    """Print state, reason and innermost frame of every thread, by the name of its work."""
    threads = [threading.Thread(target=work, name=work.__name__, daemon=True) for work in WORKS]
    for thread in threads:
        thread.start()
    by_name = {}
    # One that was about to wait may still have been on its way.
    while any(state != ThreadState.BLOCKED for state, _, _ in by_name.values()) or not by_name:
        while not all(map(_waits, threads)):
            time.sleep(0.001)
        with sampling() as recording:
            recording.look_again(5)
        last = {work.__name__: seen(recording.trace, work.__name__)[-1] for work in WORKS}
        by_name = {name: (item.state, item.wait, item.frames[0]) for name, item in last.items()}
    print(json.dumps(by_name), flush=True)
    child.kill()
    os._exit(0)


if __name__ == "__main__":
    main()
