"""Servers whose requests come one by one, or overlap on threads, in asyncio, on greenlets."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import threading
import time
from collections.abc import Awaitable, Callable
from http.server import BaseHTTPRequestHandler, HTTPServer, ThreadingHTTPServer
from pathlib import Path
from typing import Any

if sys.argv[1] == "greenlets":
    from gevent import monkey

    monkey.patch_all()

from own_truth import book, burn, run_one, timed, wall_ns

CLIENTS = Path(__file__).with_name("request_clients.py")


def clients(port: int, requests: int, at_once: int) -> list[str]:
    return [sys.executable, str(CLIENTS), str(port), str(requests), str(at_once)]


@timed
def render() -> None:
    burn(8)


class Handler(BaseHTTPRequestHandler):
    """Each request computes 8 ms, and waits 60 ms for what could be a database."""

    waits_seconds = 0.06

    def do_GET(self) -> None:
        started = wall_ns()
        render()
        time.sleep(self.waits_seconds)
        self.send_response(200)
        self.end_headers()
        self.wfile.write(b"done")
        book.add_request(wall_ns() - started)

    def log_message(self, *_: Any) -> None:
        pass


class QuickHandler(Handler):
    waits_seconds = 0.01


def serve(server: HTTPServer, requests: int, at_once: int) -> None:
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    subprocess.run(clients(server.server_port, requests, at_once), check=True)
    server.shutdown()
    thread.join()
    server.server_close()


def one_by_one() -> None:
    serve(HTTPServer(("127.0.0.1", 0), QuickHandler), 50, 1)


def on_threads() -> None:
    serve(ThreadingHTTPServer(("127.0.0.1", 0), Handler), 60, 6)


async def answer() -> None:
    """Handle a request in a coroutine: 8 ms of work, 60 ms of waiting."""
    started = wall_ns()
    render()
    await asyncio.sleep(0.06)
    book.add_request(wall_ns() - started)


async def with_aiohttp() -> None:
    from aiohttp import web

    async def handle(_: web.Request) -> web.Response:
        await answer()
        return web.Response(text="done")

    app = web.Application()
    app.router.add_get("/{number}", handle)
    runner = web.AppRunner(app)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    port = site._server.sockets[0].getsockname()[1]
    process = await asyncio.create_subprocess_exec(*clients(port, 60, 6))
    await process.wait()
    await runner.cleanup()


async def app(scope: dict[str, Any], receive: Any, send: Callable[[Any], Awaitable[None]]) -> None:
    await answer()
    await send({"type": "http.response.start", "status": 200, "headers": []})
    await send({"type": "http.response.body", "body": b"done"})


async def with_uvicorn() -> None:
    import uvicorn

    server = uvicorn.Server(uvicorn.Config(app, port=0, log_level="error", lifespan="off"))
    task = asyncio.create_task(server.serve())
    while not server.started:
        await asyncio.sleep(0.01)
    port = server.servers[0].sockets[0].getsockname()[1]
    process = await asyncio.create_subprocess_exec(*clients(port, 60, 6))
    await process.wait()
    server.should_exit = True
    await task


run_one(
    {
        "one_by_one": one_by_one,
        "threads": on_threads,
        "greenlets": on_threads,
        "aiohttp": lambda: asyncio.run(with_aiohttp()),
        "uvicorn": lambda: asyncio.run(with_uvicorn()),
    }
)
