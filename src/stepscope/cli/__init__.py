"""The command line: a registry of verbs, and the code they share."""

from __future__ import annotations

from typing import TYPE_CHECKING

from stepscope.lazy import lazy_names

if TYPE_CHECKING:
    from stepscope.cli.base.command import COMMANDS, Command, Parser
    from stepscope.cli.entry import commands_for, main

__all__ = ["COMMANDS", "Command", "Parser", "commands_for", "main"]

# The process that answers for a run parses no arguments: it loads no parser.
__getattr__, __dir__ = lazy_names(
    __name__,
    {
        "stepscope.cli.base.command": "COMMANDS Command Parser",
        "stepscope.cli.entry": "commands_for main",
    },
)
