"""``stepscope mcp``: serve the traces of a folder to programs that read."""

from __future__ import annotations

import argparse
import functools
import inspect
from collections.abc import Callable
from pathlib import Path
from typing import Any

from stepscope.cli.base.command import ExitCode, Parser
from stepscope.errors import StepscopeError


class Mcp:
    """Serve the traces of a folder over the Model Context Protocol.

    A client such as a coding assistant starts it and talks to it through standard input and output:
    it lists traces, and asks for summaries, findings, what changed between two, rows by SQL and
    parts of the timeline. Only traces below FOLDER are read. It needs the package mcp.
    """

    name = "mcp"

    def add_arguments(self, parser: Parser) -> None:
        parser.add_argument("folder", metavar="FOLDER", nargs="?", default=".", type=Path)

    def run(self, args: argparse.Namespace) -> ExitCode:
        if not args.folder.is_dir():
            raise StepscopeError(f"{args.folder} is not a folder; give one that holds traces")
        make, error = _sdk()
        from stepscope.cli.base.tools_for_agents import Tools

        server = make("stepscope")
        for tool in Tools(args.folder).all():
            server.tool()(_explaining(tool, error))
        server.run()
        return 0


def _sdk() -> tuple[Callable[[str], Any], type[Exception]]:
    """Return what makes a server, and the error that a client is told in words."""
    try:
        try:  # version 2
            from mcp.server import MCPServer
            from mcp.server.mcpserver.exceptions import ToolError
        except ImportError:
            from mcp.server.fastmcp import FastMCP as MCPServer
            from mcp.server.fastmcp.exceptions import ToolError
    except ImportError:
        raise StepscopeError("the package mcp is not installed: pip install mcp") from None
    return MCPServer, ToolError


def _explaining(tool: Callable[..., Any], error: type[Exception]) -> Callable[..., Any]:
    @functools.wraps(tool)
    def explaining(*args: Any, **keywords: Any) -> Any:
        try:
            return tool(*args, **keywords)
        except StepscopeError as reason:
            raise error(str(reason)) from None

    explaining.__signature__ = inspect.signature(tool, eval_str=True)  # type: ignore[attr-defined]
    return explaining
