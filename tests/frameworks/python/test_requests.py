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
from typing import TYPE_CHECKING, Any

import pytest
from request_recording import fetched, names_of, recorded, requests_recorded, rows_of, serving

from recording import run_python, trace_of
from stepscope.frameworks.python import request_ranges
from stepscope.trace.model import SliceKind

if TYPE_CHECKING:
    from collections.abc import Callable


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
    monkeypatch.setattr(request_ranges, "_names", set())
    monkeypatch.setattr(request_ranges, "_MOST_NAMES", 3)

    def run() -> None:
        with serving(http.server.HTTPServer(("127.0.0.1", 0), Handler)) as port:
            for word in "ABCDE":
                client = http.client.HTTPConnection("127.0.0.1", port)
                client.request(word, "/")
                client.getresponse().read()
                client.close()

    names = names_of(recorded(run), "request")
    assert names == [*(f"Handler.do_{word}" for word in "ABC"), *[request_ranges.OTHER] * 2]


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
        assert all(one is not other for one, other in zip(before, state(), strict=True))
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


# ---- libraries that are not Python's own; `make test-plain` installs some of them


def served_by(start: Callable[[], tuple[int, Callable[[], None]]], *paths: str) -> Counter[str]:
    """Return the names of the requests for some paths to a server that is started."""

    def run() -> None:
        port, stop = start()
        try:
            for path in paths:
                fetched(port, path)
        finally:
            stop()

    return Counter(names_of(recorded(run), "request"))


def test_requests_of_flask_are_named_by_their_routes() -> None:
    flask = pytest.importorskip("flask")
    app = flask.Flask("app")

    @app.route("/items/<int:number>")
    def item(number: int) -> str:
        return str(number)

    @app.route("/fails")
    def fails() -> str:
        raise KeyError("no")

    def start() -> tuple[int, Callable[[], None]]:
        import logging

        from werkzeug.serving import make_server

        logging.getLogger("werkzeug").setLevel(logging.CRITICAL)
        app.logger.setLevel(logging.CRITICAL)
        server = make_server("127.0.0.1", 0, app, threaded=True)
        server.daemon_threads = False  # closing it waits for requests that are answered but go on
        thread = threading.Thread(target=server.serve_forever)
        thread.start()

        def stop() -> None:
            server.shutdown()
            thread.join()
            server.server_close()

        return server.server_port, stop

    names = served_by(start, "/items/1", "/items/2", "/fails", "/absent")
    assert names == {"GET /items/<int:number>": 2, "GET /fails": 1, "Flask without a route": 1}


def in_a_loop(start: Any, stop: Any) -> tuple[int, Callable[[], None]]:
    """Run an asynchronous server in a thread; return its port and what stops it."""
    loop = asyncio.new_event_loop()
    ready: Any = threading.Event()

    async def main() -> None:
        ready.port = await start()
        ready.end = asyncio.Event()
        ready.set()
        await ready.end.wait()
        await stop()

    def run() -> None:
        asyncio.set_event_loop(loop)
        loop.run_until_complete(main())
        loop.close()

    thread = threading.Thread(target=run)
    thread.start()
    ready.wait()

    def end() -> None:
        loop.call_soon_threadsafe(ready.end.set)
        thread.join()

    return ready.port, end


def test_requests_of_aiohttp_are_named_by_their_routes() -> None:
    web = pytest.importorskip("aiohttp.web")

    async def item(request: Any) -> Any:
        await asyncio.sleep(0)
        return web.Response(text=request.match_info["number"])

    app = web.Application()
    app.add_routes([web.get("/items/{number}", item)])
    runner = web.AppRunner(app)

    async def start() -> int:
        await runner.setup()
        site = web.TCPSite(runner, "127.0.0.1", 0)
        await site.start()
        return int(runner.addresses[0][1])

    names = served_by(lambda: in_a_loop(start, runner.cleanup), "/items/1", "/items/2", "/absent")
    assert names.pop("GET /items/{number}") == 2
    assert sum(names.values()) == 1


def free_port() -> int:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        return int(taken.getsockname()[1])


async def plain_app(scope: Any, _receive: Any, send: Any) -> None:
    if scope["type"] == "lifespan":
        return
    await send({"type": "http.response.start", "status": 200, "headers": []})
    await send({"type": "http.response.body", "body": b"ok"})


def uvicorn_of(app: Any, **options: Any) -> Callable[[], tuple[int, Callable[[], None]]]:
    uvicorn = pytest.importorskip("uvicorn")

    def start() -> tuple[int, Callable[[], None]]:
        port = free_port()
        config = uvicorn.Config(app, "127.0.0.1", port, log_level="critical", **options)
        server = uvicorn.Server(config)
        thread = threading.Thread(target=server.run)
        thread.start()
        while not server.started:
            threading.Event().wait(0.01)

        def stop() -> None:
            server.should_exit = True
            thread.join()

        return port, stop

    return start


@pytest.mark.parametrize("http_library", ["h11", "httptools"])
def test_requests_of_uvicorn_are_named_by_the_application(http_library: str) -> None:
    pytest.importorskip(http_library)
    names = served_by(uvicorn_of(plain_app, http=http_library, lifespan="off"), "/a", "/b")
    assert names == {"GET plain_app": 2}


def test_requests_of_uvicorn_on_its_fast_loop_are_recorded() -> None:
    pytest.importorskip("uvloop")
    names = served_by(uvicorn_of(plain_app, loop="uvloop", lifespan="off"), "/a", "/b")
    assert names == {"GET plain_app": 2}


def test_requests_of_fastapi_are_named_by_their_routes() -> None:
    fastapi = pytest.importorskip("fastapi")
    app = fastapi.FastAPI()

    @app.get("/items/{number}")
    async def item(number: int) -> int:
        return number

    names = served_by(uvicorn_of(app, lifespan="off"), "/items/1", "/items/2", "/absent")
    assert names.pop("GET /items/{number}") == 2
    assert sum(names.values()) == 1


def test_requests_of_starlette_are_named_by_their_handlers() -> None:
    pytest.importorskip("starlette")
    from starlette.applications import Starlette
    from starlette.responses import PlainTextResponse
    from starlette.routing import Route

    async def item(_request: Any) -> Any:
        return PlainTextResponse("ok")

    app = Starlette(routes=[Route("/items/{number}", item)])
    names = served_by(uvicorn_of(app, lifespan="off"), "/items/1", "/items/2")
    assert [name.rpartition(".")[2] for name in names.elements()] in (
        ["item"] * 2,
        ["GET /items/{number}"] * 2,
    )


def test_requests_of_tornado_are_named_by_their_handlers() -> None:
    web = pytest.importorskip("tornado.web")

    class Item(web.RequestHandler):  # type: ignore[misc,name-defined]
        async def get(self) -> None:
            await asyncio.sleep(0)
            self.write("ok")

        def log_exception(self, *_: object) -> None: ...

    async def start() -> int:
        start.server = web.Application([("/items/.*", Item)]).listen(0, "127.0.0.1")  # type: ignore[attr-defined]
        (sock,) = start.server._sockets.values()  # type: ignore[attr-defined]
        return int(sock.getsockname()[1])

    async def stop() -> None:
        start.server.stop()  # type: ignore[attr-defined]

    assert served_by(lambda: in_a_loop(start, stop), "/items/1", "/items/2") == {"Item.get": 2}


def test_requests_of_hypercorn_are_named_by_the_application() -> None:
    pytest.importorskip("hypercorn")
    from hypercorn.asyncio import serve
    from hypercorn.config import Config

    def start() -> tuple[int, Callable[[], None]]:
        port, end = free_port(), asyncio.Event()
        loop, config = asyncio.new_event_loop(), Config()
        config.bind = [f"127.0.0.1:{port}"]
        config.errorlog = config.accesslog = None
        main = serve(plain_app, config, shutdown_trigger=end.wait)
        thread = threading.Thread(target=loop.run_until_complete, args=(main,))
        thread.start()
        while True:
            try:
                socket.create_connection(("127.0.0.1", port)).close()
                break
            except OSError:
                threading.Event().wait(0.01)

        def stop() -> None:
            loop.call_soon_threadsafe(end.set)
            thread.join()

        return port, stop

    assert served_by(start, "/a", "/b") == {"GET plain_app": 2}


def test_calls_of_grpc_are_named_by_their_methods() -> None:
    grpc = pytest.importorskip("grpc")
    from concurrent.futures import ThreadPoolExecutor

    def say(request: bytes, _context: Any) -> bytes:
        return request

    def run() -> None:
        server = grpc.server(ThreadPoolExecutor(2))
        methods = {"say": grpc.unary_unary_rpc_method_handler(say)}
        server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler("it", methods),))
        port = server.add_insecure_port("127.0.0.1:0")
        server.start()
        with grpc.insecure_channel(f"127.0.0.1:{port}") as channel:
            call = channel.unary_unary("/it/say")
            assert [call(word) for word in (b"a", b"b")] == [b"a", b"b"]
        server.stop(None).wait()

    (name, other) = names_of(recorded(run), "request")
    assert name == other
    assert name.endswith("say")


def test_requests_of_django_are_named_by_their_routes() -> None:
    pytest.importorskip("django")
    done = run_python(
        """
        import sys
        from stepscope.frameworks.python.requests import Requests
        from stepscope.record.session import Session
        session = Session([Requests()])
        session.start()
        import django
        from django.conf import settings
        settings.configure(ROOT_URLCONF="__main__", ALLOWED_HOSTS=["*"], DEBUG=False,
                           LOGGING_CONFIG=None)
        django.setup()
        from django.http import HttpResponse
        from django.test import RequestFactory
        from django.urls import path
        from django.core.handlers.wsgi import WSGIHandler
        urlpatterns = [path("items/<int:number>", lambda request, number: HttpResponse("ok"))]
        app = WSGIHandler()
        for url in ("/items/1", "/items/2", "/absent"):
            app(RequestFactory().get(url).environ, lambda *_: None)
        session.stop()
        trace = session.trace
        print(sorted(trace.name_of(r) for r in range(len(trace))
              if trace.strings[int(trace.slices.category[r])] == "request"))
        """
    )
    route = "GET items/<int:number>"
    assert done.stdout.strip() == str(["Django without a route", route, route]), done.stderr


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
