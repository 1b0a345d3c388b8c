"""Requests of servers that are not Python's own; `make test-plain` installs some of them."""

from __future__ import annotations

import asyncio
import socket
import threading
from collections import Counter
from typing import TYPE_CHECKING, Any

import pytest
from request_recording import fetched, names_of, recorded

from recording import run_python

if TYPE_CHECKING:
    from collections.abc import Callable


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
    from tornado.httpserver import HTTPServer
    from tornado.netutil import bind_sockets

    class Item(web.RequestHandler):  # type: ignore[misc,name-defined]
        async def get(self) -> None:
            await asyncio.sleep(0)
            self.write("ok")

        def log_exception(self, *_: object) -> None: ...

    server = HTTPServer(web.Application([("/items/.*", Item)]))

    async def start() -> int:
        sockets = bind_sockets(0, "127.0.0.1")
        server.add_sockets(sockets)
        return int(sockets[0].getsockname()[1])

    async def stop() -> None:
        server.stop()

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
