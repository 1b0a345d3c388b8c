"""Requests of servers as slices: one each, by handler or route, and no program notices."""

from __future__ import annotations

import asyncio
import http.client
import http.server
import socket
import socketserver
import threading
import wsgiref.handlers
import wsgiref.simple_server
from collections import Counter
from typing import Any

import pytest
from request_recording import fetched, names_of, recorded, requests_recorded, rows_of, serving

from recording import run_python, trace_of
from stepscope.frameworks.python import servers
from stepscope.trace.model import SliceKind


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        self.send_response(200)
        self.send_header("Content-Length", "2")
        self.end_headers()
        self.wfile.write(b"ok")

    def log_message(self, *_: object) -> None: ...


class Server(http.server.ThreadingHTTPServer):
    daemon_threads = False  # closing it waits for them


def test_each_request_of_a_connection_is_a_slice_and_the_waiting_between_is_none() -> None:
    server = Server(("127.0.0.1", 0), Handler)

    def run() -> None:
        with serving(server) as port:
            client = http.client.HTTPConnection("127.0.0.1", port)
            for path in ("/a", "/b", "/c"):
                client.request("GET", path)
                assert client.getresponse().read() == b"ok"
            client.request("PUT", "/d")
            assert client.getresponse().status == 501
            client.close()

    trace = recorded(run)
    assert names_of(trace, "request") == ["Handler.do_GET"] * 3 + ["Handler.do_PUT"]
    assert set(trace.slices.kind[rows_of(trace, "request")].tolist()) == {SliceKind.RANGE}


def test_a_handler_that_fails_ends_its_request() -> None:
    class Failing(Handler):
        def do_GET(self) -> None:
            raise KeyError("no")

    class Quiet(Server):
        def handle_error(self, *_: object) -> None: ...

    def run() -> None:
        with serving(Quiet(("127.0.0.1", 0), Failing)) as port:
            for _ in range(2):
                with pytest.raises(http.client.HTTPException):
                    fetched(port, "/")

    trace = recorded(run)
    assert names_of(trace, "request") == ["Failing.do_GET"] * 2
    assert not trace.slices.flags[rows_of(trace, "request")].any()


def test_requests_of_a_server_of_sockets() -> None:
    class Echo(socketserver.StreamRequestHandler):
        def handle(self) -> None:
            self.wfile.write(self.rfile.readline())

    def run() -> None:
        with serving(socketserver.TCPServer(("127.0.0.1", 0), Echo)) as port:
            for _ in range(3):
                with socket.create_connection(("127.0.0.1", port)) as client:
                    client.sendall(b"hello\n")
                    assert client.makefile("rb").readline() == b"hello\n"

    assert names_of(recorded(run), "request") == ["Echo"] * 3


def application(_environ: Any, start_response: Any) -> list[bytes]:
    start_response("200 OK", [])
    return [b"ok"]


class QuietHandler(wsgiref.simple_server.WSGIRequestHandler):
    def log_message(self, *_: object) -> None: ...


def test_requests_of_wsgi_are_named_by_the_application() -> None:
    server = wsgiref.simple_server.make_server(
        "127.0.0.1", 0, application, handler_class=QuietHandler
    )

    def run() -> None:
        with serving(server) as port:
            assert [fetched(port, f"/{i}") for i in range(3)] == ["ok"] * 3

    assert names_of(recorded(run), "request") == ["application"] * 3


def test_connections_of_a_stream_server_are_tasks() -> None:
    async def handle(reader: Any, writer: Any) -> None:
        writer.write(await reader.readline())
        await writer.drain()
        writer.close()

    async def main() -> None:
        server = await asyncio.start_server(handle, "127.0.0.1", 0)
        port = server.sockets[0].getsockname()[1]
        for _ in range(4):
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            writer.write(b"hello\n")
            assert await reader.readline() == b"hello\n"
            writer.close()
        server.close()
        await server.wait_closed()

    trace = recorded(lambda: asyncio.run(main()))
    names = Counter(name.rpartition(".")[2] for name in names_of(trace, "task"))
    assert names["handle"] == 4


def test_there_are_not_more_names_than_anybody_reads(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(servers, "_names", set())
    monkeypatch.setattr(servers, "_MAX_NAMES", 3)

    def run() -> None:
        with serving(http.server.HTTPServer(("127.0.0.1", 0), Handler)) as port:
            for word in "ABCDE":
                client = http.client.HTTPConnection("127.0.0.1", port)
                client.request(word, "/")
                client.getresponse().read()
                client.close()

    names = names_of(recorded(run), "request")
    assert names == [*(f"Handler.do_{word}" for word in "ABC"), *[servers.OTHER] * 2]


def test_a_library_that_is_imported_later_is_recorded_and_one_that_is_not_stays_out() -> None:
    done = run_python(
        """
        import sys
        from stepscope.frameworks.python.requests import Requests
        from stepscope.record.session import Session
        session = Session([Requests()])
        session.start()
        assert "http.server" not in sys.modules and "socketserver" not in sys.modules
        import http.client, threading
        import http.server
        plain = http.server.BaseHTTPRequestHandler.handle_one_request.__wrapped__
        server = http.server.HTTPServer(("127.0.0.1", 0), http.server.SimpleHTTPRequestHandler)
        thread = threading.Thread(target=server.handle_request)
        thread.start()
        client = http.client.HTTPConnection("127.0.0.1", server.server_port)
        client.request("HEAD", "/")
        client.getresponse().read()
        thread.join()
        session.stop()
        assert http.server.BaseHTTPRequestHandler.handle_one_request is plain
        for absent in ("flask", "aiohttp", "django", "grpc", "tornado", "uvicorn", "hypercorn"):
            assert absent not in sys.modules
        print([name for name in session.trace.names() if "import" not in name])
        """
    )
    assert done.stdout.strip() == "['SimpleHTTPRequestHandler.do_HEAD']", done.stderr


def test_nothing_stays_patched() -> None:
    owners = (
        (http.server.BaseHTTPRequestHandler, "handle_one_request"),
        (http.server.BaseHTTPRequestHandler, "parse_request"),
        (socketserver.BaseServer, "finish_request"),
        (wsgiref.handlers.BaseHandler, "run"),
    )

    def state() -> list[Any]:
        return [vars(owner)[name] for owner, name in owners]

    before = state()
    with requests_recorded(), requests_recorded():
        assert all(value is not other for value, other in zip(before, state(), strict=True))
    assert state() == before


def test_a_request_during_which_recording_stops_is_served() -> None:
    began, may_end = threading.Event(), threading.Event()

    class Slow(Handler):
        def do_GET(self) -> None:
            began.set()
            may_end.wait()
            super().do_GET()

    answers: list[str] = []
    with serving(Server(("127.0.0.1", 0), Slow)) as port:
        client = threading.Thread(target=lambda: answers.append(fetched(port, "/")))
        with requests_recorded() as session:
            client.start()
            began.wait()
        may_end.set()
        client.join()
        assert fetched(port, "/") == "ok"
    assert answers == ["ok"]
    assert names_of(trace_of(session), "request") == ["Slow.handle_one_request"]


def test_the_program_of_a_server_has_its_requests_by_default(tmp_path: Any) -> None:
    from command_line import saved_trace, script, stepscope_run

    script(
        tmp_path,
        """
import http.client, http.server, threading
class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(204)
        self.end_headers()
    def log_message(self, *_): ...
server = http.server.HTTPServer(("127.0.0.1", 0), Handler)
thread = threading.Thread(target=lambda: [server.handle_request() for _ in range(3)])
thread.start()
for _ in range(3):
    client = http.client.HTTPConnection("127.0.0.1", server.server_port)
    client.request("GET", "/")
    assert client.getresponse().status == 204
thread.join()
""",
    )
    done = stepscope_run("--no-summary", "program.py", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert names_of(saved_trace(tmp_path), "request") == ["Handler.do_GET"] * 3
