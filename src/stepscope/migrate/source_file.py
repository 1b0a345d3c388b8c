"""Reads and writes a program's file; its encoding, newlines and mode are preserved."""

from __future__ import annotations

import io
import os
import secrets
import tokenize
from dataclasses import dataclass
from pathlib import Path

from stepscope.errors import StepscopeError


@dataclass(frozen=True)
class SourceFile:
    """A program's text and encoding."""

    path: str
    text: str
    encoding: str


def read_source(path: str) -> SourceFile:
    """Read a program; a StepscopeError if it cannot be read."""
    try:
        data = Path(path).read_bytes()
    except IsADirectoryError:
        raise StepscopeError(f"{path} is a folder; give the name of a Python file") from None
    except OSError as error:
        raise StepscopeError(f"{path}: {error.strerror or error}") from error
    try:
        encoding, _ = tokenize.detect_encoding(io.BytesIO(data).readline)
        return SourceFile(path, data.decode(encoding), encoding)
    except (SyntaxError, UnicodeDecodeError) as error:
        reason = error.msg if isinstance(error, SyntaxError) else f"it is not {error.encoding}"
        raise StepscopeError(
            f"{path} cannot be decoded ({reason}); declare its encoding in the first line"
        ) from error


def write_source(file: SourceFile, text: str) -> None:
    """Replace the file's text, whole or not at all."""
    target = Path(os.path.realpath(file.path))  # a link stays a link
    written = target.with_name(f".{target.name}.{secrets.token_hex(4)}")
    try:
        data = text.encode(file.encoding)
        with written.open("xb") as stream:
            stream.write(data)
        written.chmod(target.stat().st_mode & 0o7777)
        written.replace(target)
    except OSError as error:
        raise StepscopeError(f"{file.path}: {error.strerror or error}") from error
    finally:
        written.unlink(missing_ok=True)
