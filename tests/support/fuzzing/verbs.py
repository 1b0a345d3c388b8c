"""Does with a trace what users do with one: every verb, and every format that is written."""

from __future__ import annotations

import contextlib
import io
import shutil
import traceback
import warnings
from typing import TYPE_CHECKING, Any

from stepscope.cli import main
from stepscope.cli.base import files
from stepscope.errors import StepscopeError

if TYPE_CHECKING:
    import random
    from collections.abc import Callable, Sequence
    from pathlib import Path

_DEVICE_VIEWS = (
    "overview", "streams", "steps", "idle", "queue", "kernels", "copies", "communication", "flops",
)  # fmt: skip
_SUFFIXES = (
    ".json", ".json.gz", ".stepscope", ".stacks", ".speedscope.json", ".paddle_trace.json", ".pb",
    ".pftrace",
)  # fmt: skip
_QUESTION = "select name, sum(self_ns), count(*) from ops group by name order by 2 desc limit 10"


def all_verbs() -> list[list[str]]:
    """Return the arguments of every verb that reads a trace; {} is the trace, [] a new file."""
    return [
        ["info", "{}"],
        ["summary", "{}"],
        ["summary", "{}", "--json"],
        ["summary", "{}", "--torch-table", "--group-by-shape", "--flops"],
        ["summary", "{}", "--group-by-stack", "3"],
        ["summary", "{}", "--modules"],
        ["report", "{}", "--force", "-o", "[].html"],
        ["diff", "{}", "{}"],
        ["gate", "{}", "--baseline", "{}"],
        ["history", "{}", "-o", "[].history.html"],
        ["sql", "{}", _QUESTION],
        ["scrub", "{}", "--force", "-o", "[].stepscope"],
        *(["summary", "{}", "--device", view] for view in _DEVICE_VIEWS),
        *(["export", "{}", "--force", "-o", f"[]{suffix}"] for suffix in _SUFFIXES),
    ]


class Problem(Exception):
    """What a verb must not do."""


def use(path: Path, verbs: Sequence[Sequence[str]], out: Path) -> bool:
    """Run verbs on a trace that is read once; return whether it could be read.

    A verb prints, or refuses in one line. Anything else is a ``Problem``.
    """
    try:
        with warnings.catch_warnings(), _quiet():
            warnings.simplefilter("error", RuntimeWarning)
            trace = files.read(str(path))
    except StepscopeError as error:
        _check_line(str(error))
        return False
    except Exception as error:
        raise Problem(f"reading: {_message(error)}") from error
    read_again: Callable[[str], Any] = files.read
    files.read = lambda _: trace
    try:
        for words in verbs:
            _run([word.replace("{}", str(path)).replace("[]", str(out)) for word in words])
    finally:
        files.read = read_again
        for item in out.parent.glob(f"*{out.name}*"):
            shutil.rmtree(item) if item.is_dir() else item.unlink()
    return True


def some_verbs(rng: random.Random, count: int) -> list[list[str]]:
    """Return some of the verbs."""
    return rng.sample(all_verbs(), count)


def _run(words: list[str]) -> None:
    try:
        with warnings.catch_warnings(), _quiet() as printed:
            warnings.simplefilter("error", RuntimeWarning)
            code = main(words)
    except SystemExit as end:
        raise Problem(f"{' '.join(words[::2])}: it exited with {end.code}") from end
    except Exception as error:
        raise Problem(f"{_words(words)}: {_message(error)}") from error
    if code not in {0, 2}:
        raise Problem(f"{_words(words)}: it returned {code}: {printed.getvalue()[-300:]}")
    if code == 2:
        _check_line(printed.getvalue().strip())


def _words(words: list[str]) -> str:
    return " ".join([words[0], *words[2:]])


def _message(error: BaseException) -> str:
    """Name an exception and where it was raised."""
    frames = [f for f in traceback.extract_tb(error.__traceback__) if "stepscope" in f.filename]
    place = (
        f"{frames[-1].filename.rpartition('stepscope/')[2]}:{frames[-1].lineno}" if frames else ""
    )
    return f"{type(error).__name__} at {place}: {str(error)[:200]}"


def _check_line(text: str) -> None:
    if "\n" in text or "Traceback" in text or len(text) > 2000:
        raise Problem(f"an error of more than a line: {text[:300]!r}")


@contextlib.contextmanager
def _quiet() -> Any:
    printed = io.StringIO()
    with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(printed):
        yield printed
