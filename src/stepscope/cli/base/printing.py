"""How verbs print titles, labelled facts and findings: in colour and folded on a terminal.

Into a file or a pipe a line stays one line; that needs no rich, which takes as long to import as
many an answer to find.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from stepscope.cli.base.streams import out, say
from stepscope.text.layout import printable
from stepscope.units import count_text

if TYPE_CHECKING:
    from rich.console import Console

    from stepscope.analysis.findings import Finding

Fact = tuple[str, str]

_UNBOUNDED_WIDTH = 10_000
_LABEL_WIDTH = 10
_LABEL_STYLE = "cyan"
_SEVERITY_STYLES = {"high": "bold red", "medium": "bold yellow", "low": "bold"}
_ASKS_FOR_COLOUR = ("FORCE_COLOR", "TTY_COMPATIBLE")  # which rich knows


def print_title(text: str) -> None:
    """Print a line that stands out on a terminal."""
    if _is_plain():
        say(printable(text))
        return
    from rich.text import Text

    _console().print(Text(printable(text), style="bold"))


def show_facts(pairs: Iterable[Fact]) -> None:
    """Print labelled lines; on a terminal they are folded at its width."""
    rows = [(f"  {printable(label)}", printable(text)) for label, text in pairs]
    if _is_plain():
        width = max([_LABEL_WIDTH, *(len(label) for label, _ in rows)])
        for label, text in rows:
            first, *more = text.split("\n")
            say(f"{label:{width}}  {first}".rstrip())
            for line in more:
                say(f"{'':{width}}  {line}".rstrip())
        return
    from rich.table import Table
    from rich.text import Text

    grid = Table.grid(padding=(0, 2, 0, 0))
    grid.add_column(no_wrap=True, min_width=_LABEL_WIDTH)
    grid.add_column(overflow="fold")
    for label, text in rows:
        grid.add_row(Text(label, style=_LABEL_STYLE), Text(text))
    console = _console()
    with console.capture() as shown:
        console.print(grid)
    for line in shown.get().splitlines():
        say(line.rstrip())


def show_findings(findings: Sequence[Finding], most: int | None, more: str = "") -> None:
    """Print at most ``most`` findings; ``more`` says how to see the others."""
    if most == 0:
        return
    say()
    if not findings:
        show_facts([("findings", "no known problem found")])
    for number, finding in enumerate(findings[:most], 1):
        title = f"{number}. {finding.title} ({finding.severity.value})"
        _show_inset(title, 2, _SEVERITY_STYLES[finding.severity.value])
        _show_inset(finding.text, 5, "")
        _show_inset(f"fix: {finding.fix}", 5, _LABEL_STYLE)
    if most is not None and len(findings) > most:
        say(f"  {count_text(len(findings) - most, 'finding')} more{more}")


def show_command(label: str, command: str) -> None:
    """Print a labelled command; it is never folded, so that it can be copied."""
    shown_label = f"  {label}".ljust(_LABEL_WIDTH)
    if _is_plain():
        say(f"{shown_label}  {command}")
        return
    from rich.text import Text

    _console().print(Text.assemble((shown_label, _LABEL_STYLE), f"  {command}"), soft_wrap=True)


def _show_inset(text: str, inset: int, style: str) -> None:
    if _is_plain():
        say("\n".join(f"{'':{inset}}{line}".rstrip() for line in printable(text).split("\n")))
        return
    from rich.padding import Padding
    from rich.text import Text

    console = _console()
    with console.capture() as shown:
        console.print(Padding(Text(printable(text), style=style), (0, 0, 0, inset)))
    say("\n".join(line.rstrip() for line in shown.get().splitlines()))


def _is_plain() -> bool:
    return not out().isatty() and not any(map(os.environ.get, _ASKS_FOR_COLOUR))


def _console() -> Console:
    from rich.console import Console

    stream = out()
    return Console(file=stream, width=None if stream.isatty() else _UNBOUNDED_WIDTH)
