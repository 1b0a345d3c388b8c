"""``stepscope view``: the traces of a folder in the browser."""

from __future__ import annotations

import argparse
import contextlib
import os
import signal
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from stepscope.cli.base.command import ExitCode, Parser
from stepscope.errors import StepscopeError

if TYPE_CHECKING:
    from stepscope.view.library import Library
    from stepscope.view.server import ViewServer

_LAST_PORT = 65_535
_TERMINATED = 143  # the shell's exit code for death by SIGTERM


class View:
    """Show the traces of a folder in the browser.

    Lists the traces in DIR (default: here) and below with their key figures, and opens their
    reports; new traces appear as they are written. Where DIR is a trace that is being recorded,
    its page opens and grows with it. The server is reachable from this machine only,
    and only with the address that it prints. Ctrl-C stops it.
    """

    name = "view"

    def add_arguments(self, parser: Parser) -> None:
        parser.add_argument("folder", metavar="DIR", type=Path, nargs="?", default=Path())
        parser.add_argument(
            "--port", metavar="N", type=_port, default=0, help="default: any free port"
        )
        parser.add_argument(
            "--no-open", action="store_true", help="only print the address, do not open a browser"
        )

    def run(self, args: argparse.Namespace) -> ExitCode:
        from stepscope.view.folder import Folder
        from stepscope.view.library import Library

        folder, page = _what_to_show(args.folder)
        check_folder(folder)
        with (
            _ended_by_sigterm(),
            Library(Folder(folder)) as library,
            _server(library, args.port) as server,
        ):
            print(f"Serving the traces of {folder.absolute()} at\n  {server.url}{page}")
            print("Press Ctrl-C to stop.", flush=True)
            if not args.no_open:
                _open_browser(server, page)
            with contextlib.suppress(KeyboardInterrupt):
                server.serve_forever()
        return 0


def _what_to_show(folder: Path) -> tuple[Path, str]:
    """Return the folder to serve, and which of its pages to open: a recording's own, or all."""
    from urllib.parse import quote

    from stepscope.view.growing import is_recording

    if not is_recording(folder):
        return folder, ""
    place = folder.absolute()
    return place.parent, f"live/{quote(os.fsencode(place.name), safe='')}"


def check_folder(folder: Path) -> None:
    """Raise StepscopeError when there is no such folder, or it may not be read."""
    from stepscope.trace.store import is_stored_trace

    what = "a file" if folder.is_file() else "a trace" if is_stored_trace(folder) else ""
    if what:
        raise StepscopeError(
            f"{folder} is {what}; name its folder, or use `stepscope report` for this one trace"
        )
    try:
        os.scandir(folder).close()
    except FileNotFoundError:
        raise StepscopeError(f"{folder}: there is no such folder; check the name") from None
    except OSError as error:
        raise StepscopeError(f"{folder} cannot be read: {error.strerror}") from None


def _port(text: str) -> int:
    if not text.isascii() or not text.isdigit() or int(text) > _LAST_PORT:
        raise argparse.ArgumentTypeError(f"{text!r} is not a port; use 0 (any) to {_LAST_PORT}")
    return int(text)


def _server(library: Library, port: int) -> ViewServer:
    from stepscope.view.server import ViewServer

    try:
        return ViewServer(library, port)
    except OSError as error:
        raise StepscopeError(
            f"port {port} cannot be used: {error.strerror}; choose another, or omit --port"
        ) from None


@contextlib.contextmanager
def _ended_by_sigterm() -> Iterator[None]:
    """Exit on SIGTERM as cleanly as on Ctrl-C."""

    def end(*_: object) -> None:
        raise SystemExit(_TERMINATED)

    before = signal.signal(signal.SIGTERM, end)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def _open_browser(server: ViewServer, page: str) -> None:
    import webbrowser

    # A text browser blocks until the page loads, and the page needs our server loop.
    url = server.url_for_once(page)
    threading.Thread(target=webbrowser.open, args=(url,), daemon=True).start()
