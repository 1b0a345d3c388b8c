"""Makes ranges around the requests that server libraries handle, and names them.

A request on one thread may pass through several libraries: a server and a web framework in it. The
first one makes the range; those inside only supply a better name. Names are handlers and routes, of
which a program has a limited number; the request's own path is never a name.
"""

from __future__ import annotations

import _thread
import functools
import sys
from functools import partial

from stepscope._native import begin_slice, end_slice
from stepscope.record.patching import Patches, PatchesWhenImported

TYPE_CHECKING = False  # recorded programs must not import more than they would
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    Function = Callable[..., Any]
    NameOf = Callable[..., str]  # takes the arguments of the wrapped function

_REQUEST_KIND = 12  # the recorder's number of this kind
_MAX_NAMES = 500
OTHER = "other requests"
"""What requests are called when a program has more handlers than anybody reads."""

_names: set[str] = set()


class _Here(_thread._local):
    """The handle and name of the request that this thread handles."""

    handle: object | None = None
    name = ""


_here = _Here()


def bounded(name: str) -> str:
    """Return the name, or OTHER if there are too many names."""
    if name in _names:
        return name
    if len(_names) >= _MAX_NAMES:
        return OTHER
    _names.add(name)
    return name


def handled(patches: Patches, name_of: NameOf) -> Callable[[Function], Function]:
    """Return a wrapper for functions that handle a request before they return.

    ``name_of`` is called afterwards, when the route is known.
    """

    def wrap(plain: Function) -> Function:
        @functools.wraps(plain)
        def handle(*args: Any, **kwargs: Any) -> Any:
            if not patches.in_use:
                return plain(*args, **kwargs)
            is_first = begin_request(plain.__qualname__)
            try:
                return plain(*args, **kwargs)
            finally:
                name_request(_name_or_function(name_of, args, plain))
                if is_first:
                    end_request()

        return handle

    return wrap


def handled_async(patches: Patches, name_of: NameOf) -> Callable[[Function], Function]:
    """Return the same for coroutine functions: the range includes the time they wait."""

    def wrap(plain: Function) -> Function:
        @functools.wraps(plain)
        async def handle(*args: Any, **kwargs: Any) -> Any:
            if not patches.in_use:
                return await plain(*args, **kwargs)
            handle = begin_slice(_REQUEST_KIND, plain.__qualname__, "")
            try:
                return await plain(*args, **kwargs)
            finally:
                end_slice(handle, bounded(_name_or_function(name_of, args, plain)))

        return handle

    return wrap


def begin_request(name: str) -> bool:
    """Begin a request on this thread; False inside another request, which continues.

    The name is used if the request never ends.
    """
    if _here.handle is not None:
        return False
    _here.handle = begin_slice(_REQUEST_KIND, name, "")
    return _here.handle is not None


def name_request(name: str) -> None:
    """Name the request of this thread; the first name wins, as inner libraries know better."""
    if _here.handle is not None:
        _here.name = _here.name or name


def end_request() -> None:
    handle, name = _here.handle, _here.name
    _here.handle, _here.name = None, ""
    end_slice(handle, bounded(name or OTHER))


def _name_or_function(name_of: NameOf, args: tuple[Any, ...], plain: Function) -> str:
    try:
        return name_of(*args)
    except Exception:  # the request is recorded even if this release of the library differs
        return plain.__qualname__


def servers() -> list[PatchesWhenImported]:
    return [server(module) for module in _PATCHES]


def server(module: str) -> PatchesWhenImported:
    return PatchesWhenImported(module, _PATCHES[module])


# ---- the standard library


def _patch_socketserver(patches: Patches) -> None:
    server = sys.modules["socketserver"].BaseServer
    patches.wrap(server, "finish_request", partial(_finishing, patches))


def _finishing(patches: Patches, plain: Function) -> Function:
    recorded = handled(patches, lambda server, *_: server.RequestHandlerClass.__name__)(plain)

    @functools.wraps(plain)
    def finish_request(server: Any, *args: Any, **kwargs: Any) -> Any:
        # An HTTP connection has many requests, and waits for most of them.
        is_http = hasattr(server.RequestHandlerClass, "handle_one_request")
        return (plain if is_http else recorded)(server, *args, **kwargs)

    return finish_request


def _patch_http_server(patches: Patches) -> None:
    handler = sys.modules["http.server"].BaseHTTPRequestHandler
    patches.wrap(handler, "handle_one_request", partial(_handling_one, patches))
    patches.wrap(handler, "parse_request", _parsing)


# A connection waits for its next request in handle_one_request: the request begins when its first
# lines have been read.
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


_waiting: dict[int, bool] = {}  # by handler id; True once its request has begun


def _patch_wsgiref(patches: Patches) -> None:
    handler = sys.modules["wsgiref.handlers"].BaseHandler
    patches.wrap(handler, "run", handled(patches, lambda _, application: _name_of(application)))


# ---- frameworks that threads run


def _patch_flask(patches: Patches) -> None:
    app = sys.modules["flask"].Flask
    patches.wrap(app, "wsgi_app", handled(patches, lambda app, *_: _name_of(app)))
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
        return _name_of(behavior)

    patches.wrap(sys.modules["grpc._server"], "_call_behavior", handled(patches, name_of))


# ---- those of event loops


def _patch_aiohttp(patches: Patches) -> None:
    handler = sys.modules["aiohttp.web_protocol"].RequestHandler
    patches.wrap(handler, "_handle_request", handled_async(patches, _aiohttp_route))


def _aiohttp_route(_: Any, request: Any, *__: Any) -> str:
    resource = request.match_info.route.resource
    if resource is None:
        return _name_of(request.match_info.handler)
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
    """Return the route that Starlette or its like left in the scope, else the callee."""
    method = scope.get("method", scope["type"])
    if (path := getattr(scope.get("route"), "path", None)) is not None:
        return f"{method} {path}"
    while "app" in getattr(app, "__dict__", ()):  # unwrap servers and middleware
        app = app.app
    return f"{method} {_name_of(scope.get('endpoint', app))}"


def _name_of(handler: Any) -> str:
    """Return the qualified name of a function or of an object's class."""
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
