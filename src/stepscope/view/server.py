"""The server: for this machine only, only with the token, and only GET and HEAD.

Every request must name this machine in its Host header, or a page of any web site could reach the
server under a name of its own (DNS rebinding), and must carry the token as the first part of its
path. All others are refused without details. No part of a request ever becomes a path: pages,
scripts and traces are looked up by name among those that exist.
"""

from __future__ import annotations

import base64
import hashlib
import json
import os
import re
import secrets
import shutil
from collections.abc import Iterator, Mapping
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from importlib.resources import files
from importlib.resources.abc import Traversable
from typing import Any, BinaryIO
from urllib.parse import quote, unquote_to_bytes, urlsplit

from stepscope.view.library import Library, Report, as_json, printable

LOOPBACK = "127.0.0.1"

_OWN_NAMES = frozenset({LOOPBACK, "localhost"})  # of any port: it may be forwarded, as by ssh
_HOST = re.compile(r"([a-z0-9.]+)(:[0-9]{1,5})?", re.IGNORECASE)
_SLOWEST_CLIENT_S = 30
_TYPES = {".js": "text/javascript", ".css": "text/css", ".html": "text/html"}
_IMPORT_MAP = re.compile(rb'<script type="importmap">(.*?)</script>', re.DOTALL)
_HEADERS = {
    "Cache-Control": "no-store",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
}
_ALONE = "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
_NOTHING = f"default-src 'none'; {_ALONE}"


class ViewServer(ThreadingHTTPServer):
    """Serves one library on one port of this machine."""

    daemon_threads = True

    def __init__(self, library: Library, port: int) -> None:
        """Bind the port, 0 for any; OSError if it is taken."""
        super().__init__((LOOPBACK, port), _Handler)
        self.library = library
        self.files = dict(_static_files())
        self.policy = _policy(self.files)
        self._token = secrets.token_urlsafe(24)
        self._ticket = ""
        self.first_page = ""

    @property
    def url(self) -> str:
        return f"http://{LOOPBACK}:{self.server_port}/{self._token}/"

    def url_for_once(self, page: str = "") -> str:
        """Return an address of a page that works once.

        The browser is started with it: other users of the machine can read command lines.
        """
        self._ticket = secrets.token_urlsafe(24)
        self.first_page = page
        return f"http://{LOOPBACK}:{self.server_port}/{self._ticket}"

    def has_token(self, text: str) -> bool:
        """Return whether a text is the token, compared in constant time."""
        return secrets.compare_digest(text.encode("utf-8", "replace"), self._token.encode())

    def take_ticket(self, text: str) -> bool:
        """Return whether a text is the ticket, and invalidate the ticket if so."""
        ticket, given = self._ticket.encode(), text.encode("utf-8", "replace")
        if not ticket or not secrets.compare_digest(given, ticket):
            return False
        self._ticket = ""
        return True

    def handle_error(self, *_: Any) -> None:
        """Print nothing: a browser that disconnects is not an error."""


class _Handler(BaseHTTPRequestHandler):
    server: ViewServer
    timeout = _SLOWEST_CLIENT_S

    def parse_request(self) -> bool:
        """Refuse forbidden requests, and methods other than GET and HEAD."""
        if not super().parse_request():
            return False
        head, _, self.rest = self.path.partition("?")[0].lstrip("/").partition("/")
        if not self._names_this_machine():
            self._refuse(HTTPStatus.FORBIDDEN)
        elif self.command not in {"GET", "HEAD"}:
            self._refuse(HTTPStatus.METHOD_NOT_ALLOWED, Allow="GET, HEAD")
        elif self.server.has_token(head):
            return True
        elif self.command == "GET" and not self.rest and self.server.take_ticket(head):
            self._refuse(
                HTTPStatus.SEE_OTHER,
                Location=urlsplit(self.server.url).path + self.server.first_page,
            )
        else:
            self._refuse(HTTPStatus.FORBIDDEN)
        return False

    def do_GET(self) -> None:
        kind, _, name = self.rest.partition("/")
        if self.rest == "traces.json":
            self._send_traces()
        elif kind == "report":
            self._send_report(_decoded(name))
        elif kind == "progress":
            self._send_progress(self.server.library.report(_decoded(name)))
        elif kind == "perfetto":
            self._send_perfetto_page(_decoded(name))
        elif kind == "pftrace":
            self._send_perfetto(_decoded(name))
        elif kind == "pftrace-progress":
            self._send_progress(self.server.library.perfetto(_decoded(name)))
        elif kind == "live":
            self._send_live_page(_decoded(name))
        elif kind == "growth":
            self._send_growth(_decoded(name))
        elif kind == "look":
            self._send_look(_decoded(name))
        else:
            self._send_file(self.rest or "view.html")

    do_HEAD = do_GET  # noqa: N815

    def _names_this_machine(self) -> bool:
        hosts = self.headers.get_all("Host", [])
        match = _HOST.fullmatch(hosts[0]) if len(hosts) == 1 else None
        return match is not None and match[1].lower() in _OWN_NAMES

    def _send_traces(self) -> None:
        traces, left_out = self.server.library.traces()
        rows = [
            {**as_json(listed, digest), "link": quote(os.fsencode(listed.name), safe="")}
            for listed, digest in traces
        ]
        folder = str(self.server.library.folder.root)
        self._send_json({"folder": folder, "left_out": left_out, "traces": rows})

    def _send_report(self, name: str) -> None:
        """Send the report, or the waiting page while it is being built."""
        report = self.server.library.report(name)
        if report is None:
            self._refuse(HTTPStatus.NOT_FOUND)
            return
        file = _opened(report)
        if file is None:
            self._send_file("waiting.html", HTTPStatus.ACCEPTED)
            return
        with file:
            size = os.fstat(file.fileno()).st_size
            # The report is a file for any browser, with its own content policy.
            self._send_head(HTTPStatus.OK, "text/html", size, _ALONE)
            if self.command == "GET":
                shutil.copyfileobj(file, self.wfile)

    def _send_perfetto_page(self, name: str) -> None:
        """Send the page that hands a trace to Perfetto when its button is pressed."""
        if self.server.library.perfetto(name) is None:
            self._refuse(HTTPStatus.NOT_FOUND)
            return
        content = self.server.files["perfetto.html"]
        # The window that it opens must be able to receive the trace.
        allowed = {"Cross-Origin-Opener-Policy": "same-origin-allow-popups"}
        kind = _TYPES[".html"]
        self._send(HTTPStatus.OK, kind, content, self.server.policy, **allowed)

    def _send_perfetto(self, name: str) -> None:
        report = self.server.library.perfetto(name)
        file = _opened(report) if report else None
        if file is None:
            self._refuse(HTTPStatus.NOT_FOUND)
            return
        with file:
            size = os.fstat(file.fileno()).st_size
            self._send_head(HTTPStatus.OK, "application/octet-stream", size, _NOTHING)
            if self.command == "GET":
                shutil.copyfileobj(file, self.wfile)

    def _send_live_page(self, name: str) -> None:
        """Send the page that shows a recording grow; one that has ended has its report."""
        if self.server.library.growing(name) is None:
            where = f"{urlsplit(self.server.url).path}report/{quote(os.fsencode(name), safe='')}"
            self._refuse(HTTPStatus.SEE_OTHER, Location=where)
            return
        # The report's overview sizes its bars by style attributes.
        policy = self.server.policy.replace("style-src 'self'", "style-src 'self' 'unsafe-inline'")
        content = self.server.files["live.html"]
        self._send(HTTPStatus.OK, _TYPES[".html"], content, policy)

    def _send_growth(self, name: str) -> None:
        """Send whether the recording goes on, the version of its last look, and its status."""
        growing = self.server.library.growing(name)
        if growing is None:
            self._send_json({"recording": False})
            return
        look = growing.look()
        values = {
            "look": look.number,
            "has_data": bool(look.payload),
            "error": printable(look.error),
        }
        self._send_json({"recording": True, **values, "status": growing.status()})

    def _send_look(self, name: str) -> None:
        """Send the last look at a recording, as the data of the report's overview.

        There is no content before the first look, or when the recording has just ended.
        """
        growing = self.server.library.growing(name)
        payload = growing.look().payload if growing else b""
        status = HTTPStatus.OK if payload else HTTPStatus.NO_CONTENT
        self._send(status, "application/octet-stream", payload, _NOTHING)

    def _send_progress(self, report: Report | None) -> None:
        if report is None:
            self._refuse(HTTPStatus.NOT_FOUND)
            return
        self._send_json(
            {
                "ready": report.file is not None,
                "error": report.error,
                "doing": report.doing,
                "done": report.done,
                "total": report.total,
            }
        )

    def _send_json(self, value: Any) -> None:
        self._send(HTTPStatus.OK, "application/json", json.dumps(value).encode(), _NOTHING)

    def _send_file(self, name: str, status: HTTPStatus = HTTPStatus.OK) -> None:
        content = self.server.files.get(name)
        if content is None:
            self._refuse(HTTPStatus.NOT_FOUND)
            return
        kind = _TYPES[name[name.rindex(".") :]]
        is_page = kind == _TYPES[".html"]
        self._send(status, kind, content, self.server.policy if is_page else _NOTHING)

    def _refuse(self, status: HTTPStatus, **headers: str) -> None:
        self.close_connection = True
        self._send(status, "text/plain", f"{status.phrase}\n".encode(), _NOTHING, **headers)

    def _send(
        self, status: HTTPStatus, kind: str, content: bytes, policy: str, **headers: str
    ) -> None:
        self._send_head(status, kind, len(content), policy, **headers)
        if self.command != "HEAD":
            self.wfile.write(content)

    def _send_head(
        self, status: HTTPStatus, kind: str, size: int, policy: str, **headers: str
    ) -> None:
        self.send_response(status)
        all_headers = {
            "Content-Type": f"{kind}; charset=utf-8",
            "Content-Length": str(size),
            "Content-Security-Policy": policy,
            **_HEADERS,
            **headers,
        }
        for name, value in all_headers.items():
            self.send_header(name, value)
        self.end_headers()

    def send_error(self, code: int, message: str | None = None, explain: str | None = None) -> None:
        """Answer invalid HTTP without repeating it."""
        self._refuse(HTTPStatus(code))

    def version_string(self) -> str:
        return "stepscope"

    def log_message(self, format: str, *args: Any) -> None:
        """Print nothing: the token is a part of every request."""


def _opened(report: Report) -> BinaryIO | None:
    """Return the report's file, or None; the oldest report may be removed at any time."""
    try:
        return report.file.open("rb") if report.file else None
    except FileNotFoundError:
        return None


def _decoded(name: str) -> str:
    """Return the file name in a part of a URL; it may be any bytes, as Python holds them."""
    return os.fsdecode(unquote_to_bytes(name))


def _static_files() -> Iterator[tuple[str, bytes]]:
    """Yield the pages, scripts and styles by their name in the URL.

    The report's own modules and colours are served as ``static/...``.
    """
    own = dict(_texts(files(__package__) / "static", ""))
    frame = own.pop("frame.html").decode()
    for name, content in own.items():
        page, _, kind = name.rpartition(".")
        yield name, _page(frame, page, content.decode()) if kind == "html" else content
    for name, content in _texts(files("stepscope.report") / "static", "static/"):
        if not name.endswith(".html"):
            yield name, content


def _page(frame: str, name: str, text: str) -> bytes:
    """Return a whole page: its file has the title as its first line, then the body."""
    title, body = text.split("\n", 1)
    # Only the list lies in the server's root: the others are ``report/...``, ``live/...``.
    up = "./" if name == "view" else "../"
    fills = {"up": up, "name": name, "title": title, "body": body}
    return re.sub(r"\{(up|name|title|body)\}", lambda gap: fills[gap[1]], frame).encode()


def _texts(folder: Traversable, path: str) -> Iterator[tuple[str, bytes]]:
    for entry in folder.iterdir():
        if entry.is_dir():
            yield from _texts(entry, f"{path}{entry.name}/")
        elif entry.name.endswith(tuple(_TYPES)):
            yield f"{path}{entry.name}", entry.read_bytes()


def _policy(pages: Mapping[str, bytes]) -> str:
    """Return the content security policy: our own files, and the pages' import maps."""
    maps = [import_map for page in pages.values() for import_map in _IMPORT_MAP.findall(page)]
    digests = (base64.b64encode(hashlib.sha256(one_map).digest()).decode() for one_map in maps)
    allowed = " ".join(f"'sha256-{digest}'" for digest in digests)
    return (
        f"default-src 'none'; script-src 'self' {allowed}; style-src 'self'; "
        f"connect-src 'self'; img-src data:; {_ALONE}"
    )
