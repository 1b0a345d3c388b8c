"""The control socket of a program: its owner may ask from outside how it is doing, and capture.

Requests and answers are lines of JSON. One thread serves all clients; it drops those that send too
much or nothing, so that the program does not notice them.
"""

from __future__ import annotations

import contextlib
import json
import os
import secrets
import selectors
import socket
import struct
import threading
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from stepscope._native import shielded
from stepscope.live.always_on import AlwaysOn
from stepscope.live.requests import answer, of_process
from stepscope.live.runtime import opened_folder, remove_socket, short_path, socket_name
from stepscope.live.triggers import Triggers
from stepscope.notices import notify

if TYPE_CHECKING:
    from stepscope.live.requests import Requests
    from stepscope.record.limits import Last

_MOST_CLIENTS = 16
_MOST_WAITING = 128  # connections that are not accepted yet
_MOST_ANSWERS = 8  # given at the same time
_MOST_BYTES = 64 * 1024  # of a request
_PATIENCE_S = 5.0  # for the rest of a request
_MOST_TRIES = 20  # to bind: the last program to end removes the folder
_CREDENTIALS = struct.Struct("3i")


class _OwnSocket:
    """A socket of ours in a program that may close all files, as daemons do.

    Its descriptor may then belong to a file of the program, which must not be read or closed.
    """

    def __init__(self, line: socket.socket) -> None:
        self.line = line
        self._number = line.fileno()
        self._id = _file_at(self._number)

    def fileno(self) -> int:
        """Return its number, for whoever waits for it."""
        return self._number

    def is_there(self) -> bool:
        """Return whether the file descriptor is still this socket's."""
        return self.line.fileno() == self._number and _file_at(self._number) == self._id

    def close(self) -> None:
        """Close the socket, unless its descriptor belongs to another file by now."""
        if self.line.fileno() < 0:
            return
        if self.is_there():
            with contextlib.suppress(OSError):
                self.line.close()
        else:
            self.line.detach()


def _file_at(number: int) -> tuple[int, int] | None:
    try:
        status = os.fstat(number)
    except OSError:
        return None
    return status.st_dev, status.st_ino


@dataclass(slots=True, eq=False)
class _Client:
    """A connection; it ends after its answer."""

    line: _OwnSocket
    since: float
    received: bytearray = field(default_factory=bytearray)


class ControlServer:
    """Listens on the control socket while it is open; a forked child has none."""

    def __init__(self, requests: Requests) -> None:
        self._requests = requests
        self._listener: _OwnSocket | None = None
        self._name = ""
        self._pid = 0
        self._clients: dict[_OwnSocket, _Client] = {}
        self._wake: tuple[_OwnSocket, _OwnSocket] | None = None
        self._free = threading.Semaphore(_MOST_ANSWERS)
        self._ended = threading.Event()

    def open(self) -> bool:
        """Start to listen; return whether that worked. A failure is printed in one line."""
        try:
            self._listen()
        except OSError as error:
            notify(f"no control socket, so `stepscope ps` does not show this program: {error}")
            return False
        _servers.append(self)
        threading.Thread(target=self._serve, name="stepscope control", daemon=True).start()
        return True

    def close(self) -> None:
        """Stop listening, and remove the socket."""
        listener, self._listener = self._listener, None
        if listener is None or self._pid != os.getpid():
            return
        if self in _servers:
            _servers.remove(self)
        self._ended.set()
        if self._wake is not None and self._wake[1].is_there():
            with contextlib.suppress(OSError):
                self._wake[1].line.send(b"x")
        remove_socket(self._name)

    def wait(self) -> None:
        """Wait until all accepted requests are answered."""
        for _ in range(_MOST_ANSWERS):
            self._free.acquire()

    def forget(self) -> None:
        """Close the copies of the sockets in a forked child; the parent keeps its own."""
        for line in (self._listener, *self._clients, *(self._wake or ())):
            if line is not None:
                line.close()
        self._listener, self._wake = None, None
        self._clients = {}

    def _listen(self) -> None:
        self._pid = os.getpid()
        self._name = socket_name(secrets.token_hex(4))
        listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            _bind(listener, self._name)
        except BaseException:
            listener.close()
            raise
        listener.setblocking(False)
        self._listener = _OwnSocket(listener)
        one, other = socket.socketpair()
        self._wake = _OwnSocket(one), _OwnSocket(other)

    # On the server's thread.

    def _serve(self) -> None:
        listener, wake = self._listener, self._wake
        if listener is None or wake is None:
            return
        # Not epoll: its descriptor could be taken for a file of the program.
        ready = selectors.PollSelector()
        ready.register(listener, selectors.EVENT_READ)
        ready.register(wake[0], selectors.EVENT_READ)
        while not self._ended.is_set() and listener.is_there() and wake[0].is_there():
            for key, _ in ready.select(_PATIENCE_S if self._clients else None):
                try:
                    self._handle(ready, key.fileobj, listener)
                except Exception:  # no client may stop the server
                    self._drop(ready, key.fileobj)
            self._drop_silent(ready)
        for line in tuple(self._clients):
            self._drop(ready, line)
        for line in (listener, *wake):
            line.close()

    def _handle(self, ready: selectors.BaseSelector, line: Any, listener: _OwnSocket) -> None:
        if not line.is_there():
            self._drop(ready, line)
            return
        if line is listener:
            self._accept(ready, listener)
        elif line in self._clients:
            self._read(ready, self._clients[line])

    def _accept(self, ready: selectors.BaseSelector, listener: _OwnSocket) -> None:
        try:
            accepted, _ = listener.line.accept()
        except OSError:
            # Out of descriptors, or the client is gone: try again, but slowly.
            time.sleep(0.01)
            return
        if not _is_ours(accepted):
            accepted.close()
            return
        if len(self._clients) >= _MOST_CLIENTS:  # drop the oldest
            self._drop(ready, next(iter(self._clients)))
        accepted.setblocking(False)
        line = _OwnSocket(accepted)
        self._clients[line] = _Client(line, time.monotonic())
        ready.register(line, selectors.EVENT_READ)

    def _read(self, ready: selectors.BaseSelector, client: _Client) -> None:
        try:
            got = client.line.line.recv(_MOST_BYTES)
        except BlockingIOError:
            return
        client.received += got
        if not got or len(client.received) > _MOST_BYTES:
            self._drop(ready, client.line)
        elif b"\n" in client.received:
            ready.unregister(client.line)
            del self._clients[client.line]
            text = bytes(client.received).partition(b"\n")[0]
            if not self._free.acquire(blocking=False):
                client.line.close()
                return
            threading.Thread(
                target=self._answer, args=(client.line, text), name="stepscope answer", daemon=True
            ).start()

    def _answer(self, line: _OwnSocket, text: bytes) -> None:
        try:
            reply = json.dumps(answer(self._requests, text)).encode() + b"\n"
            if line.is_there():
                with contextlib.suppress(OSError):
                    line.line.settimeout(_PATIENCE_S)
                    line.line.sendall(reply)
        finally:
            line.close()
            self._free.release()

    def _drop_silent(self, ready: selectors.BaseSelector) -> None:
        now = time.monotonic()
        for client in tuple(self._clients.values()):
            if now - client.since > _PATIENCE_S:
                self._drop(ready, client.line)

    def _drop(self, ready: selectors.BaseSelector, line: Any) -> None:
        if self._clients.pop(line, None) is not None:
            with contextlib.suppress(KeyError, ValueError):
                ready.unregister(line)
            line.close()


def _bind(listener: socket.socket, name: str) -> None:
    """Bind and listen. Until then nobody can connect, and only the owner can enter the folder."""
    for tries_left in reversed(range(_MOST_TRIES)):
        try:
            with opened_folder(create=True) as folder:
                listener.bind(short_path(folder, name))
                Path(short_path(folder, name)).chmod(0o600)
        except FileNotFoundError:
            if not tries_left:
                raise
        else:
            listener.listen(_MOST_WAITING)
            return


def _is_ours(line: socket.socket) -> bool:
    """Return whether the client is a process of the same user, or of root."""
    credentials = line.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size)
    _, user, _ = _CREDENTIALS.unpack(credentials)
    return user in {os.getuid(), 0}


_servers: list[ControlServer] = []


def _forget_all() -> None:
    for server in _servers:
        server.forget()
    _servers.clear()


os.register_at_fork(after_in_child=shielded(_forget_all))


class Serving:
    """The recording and the socket that ``serve`` has started; close() or ``with`` ends both."""

    def __init__(self, always_on: AlwaysOn, server: ControlServer) -> None:
        self._always_on = always_on
        self._server = server

    def close(self) -> None:
        """End both; a second call does nothing."""
        self._server.close()
        self._always_on.stop()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def serve(
    keep: Last | None = None,
    *,
    on_slow_step: float | None = None,
    on_memory: int | None = None,
    on_exception: bool = False,
    on_signal: int | None = None,
    captures: int = 20,
    **source_options: object,
) -> Serving:
    """Let this program be seen by ``stepscope ps``, ``top`` and ``capture``, as long as it runs.

    Nothing is recorded until somebody asks, unless ``keep`` says what a ring is to hold: then it is
    written when ``capture()`` is called, or a trigger comes: a step slower than ``on_slow_step``
    times the median, resident memory over ``on_memory`` bytes, an uncaught exception, a
    signal. ``source_options`` are what is recorded, as for ``profile``.
    """
    triggers = Triggers(on_slow_step, on_memory, on_exception, on_signal, captures).checked()
    always_on = AlwaysOn(triggers=triggers)
    if keep is not None:
        always_on.record(keep, source_options)
    server = ControlServer(of_process(always_on))
    server.open()
    return Serving(always_on, server)
