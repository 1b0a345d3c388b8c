"""IPython: ``%load_ext stepscope``, then ``%%stepscope`` above a cell, or ``%stepscope`` a line."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

from stepscope._native import record_function
from stepscope.errors import StepscopeError
from stepscope.trace.placing import TRACE_SUFFIX

if TYPE_CHECKING:
    import argparse

    from stepscope.trace.model import Trace

_USAGE = "%%stepscope [options]   above a cell, or   %stepscope [options] [--] statement"


class CellProfile:
    """The recording of a cell; a notebook shows its overview, a terminal its answer."""

    def __init__(self, trace: Trace, saved: Sequence[Path] = ()) -> None:
        self.trace = trace
        self.saved = tuple(saved)

    def _repr_html_(self) -> str:
        from stepscope.report.notebook import report_link_html

        pages = [path for path in self.saved if path.suffix == ".html"]
        return self.trace._repr_html_() + "".join(map(report_link_html, pages))

    def __repr__(self) -> str:
        from stepscope.text.answer import answer_text

        files = "".join(f"\nsaved: {path}" for path in self.saved)
        return answer_text(self.trace) + files


def load_ipython_extension(shell: Any) -> None:
    """Give IPython the magics; ``%load_ext stepscope`` calls this."""

    def stepscope(line: str, cell: str | None = None) -> CellProfile | None:
        return _profiled(shell, line, cell)

    stepscope.__doc__ = _parser().format_help()
    shell.register_magic_function(stepscope, "line_cell", "stepscope")


def _profiled(shell: Any, line: str, cell: str | None) -> CellProfile | None:
    try:
        options, statement = _options(line, whole_cell=cell is not None)
        # Lines are counted as the notebook shows them, the magic's own is the first.
        code = statement if cell is None else f"\n{cell}"
        if not code.strip():
            raise StepscopeError(f"there is nothing to record; use {_USAGE}")
        profiler = _profiler(options)
    except (StepscopeError, TypeError, ValueError) as error:
        from IPython.core.error import UsageError

        raise UsageError(f"stepscope: {error}") from None
    hook = shell.displayhook
    result = getattr(hook, "exec_result", None)  # of the cell that this is in
    with profiler, record_function("cell"):
        shell.run_cell(code)  # shows what it shows; an error, too
    hook.exec_result = result
    made = CellProfile(profiler.trace, _saved(profiler.trace, options))
    if options.name:
        shell.user_ns[options.name] = made.trace
    return made


def _profiler(options: argparse.Namespace) -> Any:
    from stepscope.frameworks.torch.dialect.profile import profile
    from stepscope.integrations.recording import run_options

    return profile(
        **run_options(),
        record_shapes=options.shapes,
        profile_memory=options.memory,
        with_stack=options.stacks,
        with_modules=options.modules,
    )


def _saved(trace: Trace, options: argparse.Namespace) -> list[Path]:
    from stepscope.formats.base.registry import export_trace

    saved = []
    for path in options.output:
        if path.name.endswith(TRACE_SUFFIX):
            trace.save(path, overwrite=True)
        else:
            export_trace(trace, path)
        saved.append(path.absolute())
    return saved


def _options(line: str, *, whole_cell: bool) -> tuple[argparse.Namespace, str]:
    """Return the options at the beginning of a line, and the rest of it."""
    if whole_cell:
        return _parser().parse_args(shlex.split(line)), ""
    words, rest = [], line.strip()
    while rest.startswith("-"):
        word, _, rest = rest.partition(" ")
        rest = rest.lstrip()
        if word == "--":
            break
        words.append(word)
        if word in {"-o", "--output", "--name"}:
            value, _, rest = rest.partition(" ")
            words.append(value)
            rest = rest.lstrip()
    return _parser().parse_args(words), rest


def _parser() -> argparse.ArgumentParser:
    import argparse

    class Parser(argparse.ArgumentParser):
        """Raises an error where argparse would end the kernel."""

        def error(self, message: str) -> NoReturn:
            raise StepscopeError(f"{message}; use {_USAGE}")

        def exit(self, status: int = 0, message: str | None = None) -> NoReturn:
            raise StepscopeError(message or _USAGE)

    parser = Parser(
        prog="%%stepscope",
        usage=_USAGE.replace("%", "%%"),
        description="Record a cell, or a statement, and show where its time went.",
        add_help=False,
        allow_abbrev=False,
    )
    parser.add_argument(
        "-o",
        "--output",
        metavar="FILE",
        type=Path,
        action="append",
        default=[],
        help="also save it: a .stepscope folder, an .html report, a .json trace; may be repeated",
    )
    parser.add_argument("--name", metavar="NAME", help="keep the trace as a variable")
    parser.add_argument("--shapes", action="store_true", help="also record operator inputs")
    parser.add_argument("--memory", action="store_true", help="also record memory allocations")
    parser.add_argument("--stacks", action="store_true", help="also record Python calls")
    parser.add_argument("--modules", action="store_true", help="also record calls of modules")
    return parser
