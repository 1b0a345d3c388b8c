"""Where server libraries handle a request, and what a request is called."""

from __future__ import annotations

import functools
import sys
from functools import partial

from stepscope.frameworks.python.request_ranges import (
    begin_request,
    end_request,
    handled,
    handled_async,
    name_request,
)
from stepscope.record.patching import Patches, PatchesWhenImported

TYPE_CHECKING = False  # nothing here imports more than a program has that we record
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    Function = Callable[..., Any]


def servers() -> list[PatchesWhenImported]:
    """Return what waits for each library that is known here."""
    return [server(module) for module in _PATCHES]


def server(module: str) -> PatchesWhenImported:
    """Return what waits for one library."""
    return PatchesWhenImported(module, _PATCHES[module])


# ---- the standard library


def _patch_socketserver(patches: Patches) -> None:
    server = sys.modules["socketserver"].BaseServer
    patches.wrap(server, "finish_request", partial(_finishing, patches))


def _finishing(patches: Patches, plain: Function) -> Function:
    recorded = handled(patches, lambda server, *_: server.RequestHandlerClass.__name__)(plain)

    @functools.wraps(plain)
    def finish_request(server: Any, *args: Any, **kwargs: Any) -> Any:
        # A connection of HTTP has many requests, and waits for most of them.
        is_http = hasattr(server.RequestHandlerClass, "handle_one_request")
        return (plain if is_http else recorded)(server, *args, **kwargs)

    return finish_request


def _patch_http_server(patches: Patches) -> None:
    handler = sys.modules["http.server"].BaseHTTPRequestHandler
    patches.wrap(handler, "handle_one_request", partial(_handling_one, patches))
    patches.wrap(handler, "parse_request", _parsing)


# A connection waits for its next request in handle_one_request: the request begins once its first
# lines are there.
def _parsing(plain: Function) -> Function:
    @functools.wraps(plain)
    def parse_request(self: Any) -> Any:
        is_valid = plain(self)
        if is_valid and id(self) in _waiting:
            _waiting[id(self)] = begin_request(f"{type(self).__name__}.handle_one_request")
        return is_valid

    return parse_request


def _handling_one(patches: Patches, plain: Function) -> Function:
    @functools.wraps(plain)
    def handle_one_request(self: Any) -> Any:
        if not patches.in_use:
            return plain(self)
        _waiting[id(self)] = False
        try:
            return plain(self)
        finally:
            if _waiting.pop(id(self)):
                name_request(f"{type(self).__name__}.do_{self.command}")
                end_request()

    return handle_one_request


_waiting: dict[int, bool] = {}  # by the id of who awaits a request; True: it has begun


def _patch_wsgiref(patches: Patches) -> None:
    handler = sys.modules["wsgiref.handlers"].BaseHandler
    patches.wrap(handler, "run", handled(patches, lambda _, application: _called(application)))


# ---- frameworks that threads run


def _patch_flask(patches: Patches) -> None:
    app = sys.modules["flask"].Flask
    patches.wrap(app, "wsgi_app", handled(patches, lambda app, *_: _called(app)))
    patches.wrap(app, "full_dispatch_request", handled(patches, _flask_route))


def _flask_route(*_: Any) -> str:
    request = sys.modules["flask"].request
    rule = request.url_rule
    return "Flask without a route" if rule is None else f"{request.method} {rule.rule}"


def _patch_django(patches: Patches) -> None:
    handler = sys.modules["django.core.handlers.base"].BaseHandler
    patches.wrap(handler, "get_response", handled(patches, _django_route))
    patches.wrap(handler, "get_response_async", handled_async(patches, _django_route))


def _django_route(_: Any, request: Any) -> str:
    match = request.resolver_match
    return f"{request.method} {match.route}" if match is not None else "Django without a route"


def _patch_grpc(patches: Patches) -> None:
    def name_of(_event: Any, _state: Any, behavior: Any, *_: Any) -> str:
        return _called(behavior)

    patches.wrap(sys.modules["grpc._server"], "_call_behavior", handled(patches, name_of))


# ---- those of event loops


def _patch_aiohttp(patches: Patches) -> None:
    handler = sys.modules["aiohttp.web_protocol"].RequestHandler
    patches.wrap(handler, "_handle_request", handled_async(patches, _aiohttp_route))


def _aiohttp_route(_: Any, request: Any, *__: Any) -> str:
    resource = request.match_info.route.resource
    if resource is None:
        return _called(request.match_info.handler)
    return f"{request.method} {resource.canonical}"


def _patch_tornado(patches: Patches) -> None:
    def name_of(handler: Any, *_: Any) -> str:
        return f"{type(handler).__name__}.{handler.request.method.lower()}"

    handler = sys.modules["tornado.web"].RequestHandler
    patches.wrap(handler, "_execute", handled_async(patches, name_of))


def _patch_uvicorn(module: str, patches: Patches) -> None:
    cycle = sys.modules[module].RequestResponseCycle
    patches.wrap(cycle, "run_asgi", handled_async(patches, _uvicorn_route))


def _uvicorn_route(cycle: Any, app: Any) -> str:
    return _asgi_route(cycle.scope, app)


def _patch_hypercorn(patches: Patches) -> None:
    def name_of(app: Any, _config: Any, scope: Any, *_: Any) -> str:
        return _asgi_route(scope, app)

    module = sys.modules["hypercorn.asyncio.task_group"]
    patches.wrap(module, "_handle", handled_async(patches, name_of))


def _asgi_route(scope: Any, app: Any) -> str:
    """Return what Starlette and those built on it left in the scope, else what was called."""
    method = scope.get("method", scope["type"])
    if (path := getattr(scope.get("route"), "path", None)) is not None:
        return f"{method} {path}"
    while "app" in getattr(app, "__dict__", ()):  # what servers and middleware put around it
        app = app.app
    return f"{method} {_called(scope.get('endpoint', app))}"


def _called(handler: Any) -> str:
    """Return what a program calls a function or an object."""
    return getattr(handler, "__qualname__", None) or type(handler).__qualname__


_UVICORN = ("uvicorn.protocols.http.h11_impl", "uvicorn.protocols.http.httptools_impl")

_PATCHES = {
    "socketserver": Patches(_patch_socketserver),
    "http.server": Patches(_patch_http_server),
    "wsgiref.handlers": Patches(_patch_wsgiref),
    "flask": Patches(_patch_flask),
    "django.core.handlers.base": Patches(_patch_django),
    "grpc._server": Patches(_patch_grpc),
    "aiohttp.web_protocol": Patches(_patch_aiohttp),
    "tornado.web": Patches(_patch_tornado),
    **{module: Patches(partial(_patch_uvicorn, module)) for module in _UVICORN},
    "hypercorn.asyncio.task_group": Patches(_patch_hypercorn),
}
