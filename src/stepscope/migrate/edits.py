"""Changes to a text: replaced spans, and remarks at the ends of lines.

All offsets refer to the original text. Everything outside the edits stays byte for byte, which
keeps formatting and comments.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections import defaultdict
from collections.abc import Collection, Sequence
from typing import NamedTuple

REMARK = "# stepscope migrate: "
_NEWLINE = re.compile(rb"\r\n|\n|\r")


def missing_text(names: Sequence[str], where: str) -> str:
    """Return the remark that names have no counterpart."""
    return f"{', '.join(names)} {'has' if len(names) == 1 else 'have'} no counterpart in {where}"


class Item(NamedTuple):
    """An item of a list: its start, its end, and the end of its comma."""

    start: int
    end: int
    stop: int


class Edits:
    """The changes to one text, given as UTF-8."""

    def __init__(self, source: bytes) -> None:
        newlines = [match.span() for match in _NEWLINE.finditer(source)]
        self._source = source
        self._line_starts = [0, *(end for _, end in newlines)]
        self._line_ends = [*(start for start, _ in newlines), len(source)]
        self.newline = source[slice(*newlines[0])].decode() if newlines else "\n"
        """How the text ends its lines."""
        self._no_comment: set[int] = set()
        self._replacements: dict[tuple[int, int], str] = {}
        self._removed_alone: dict[int, tuple[int, int]] = {}  # by its last line
        self._appended: dict[int, list[str]] = defaultdict(list)
        self._remarks: dict[int, list[str]] = defaultdict(list)
        self._missing: dict[tuple[int, str], list[str]] = defaultdict(list)

    def __bool__(self) -> bool:
        return bool(self._replacements or self._appended or self.remark_texts())

    def no_comment_in(self, start: int, end: int) -> None:
        """Put no remark into the lines of a span, which is inside a string."""
        self._no_comment.update(range(self.line_of(start), self.line_of(end)))

    def replace(self, start: int, end: int, text: str) -> None:
        """Replace a span by ``text``."""
        if self._source[start:end] != text.encode():
            self._replacements[start, end] = text

    def insert(self, at: int, text: str) -> None:
        """Insert ``text`` at an offset, after earlier insertions there."""
        self._replacements[at, at] = self._replacements.get((at, at), "") + text

    def is_within(self, start: int, end: int) -> bool:
        """Return whether a span is inside a larger one that is replaced as a whole."""
        if start == end:
            return any(a < start < b for a, b in self._replacements)
        return any(a <= start and end <= b and b - a > end - start for a, b in self._replacements)

    def add_line(self, at: int, text: str) -> None:
        """Add a line after that of an offset, with the same indentation."""
        line = self.line_of(at)
        start = self._line_starts[line]
        indent = re.match(rb"\s*", self._source[start : self._line_ends[line]])
        new = (indent[0].decode() if indent else "") + text
        if new not in self._appended[line]:
            self._appended[line].append(new)

    def remark(self, at: int, text: str) -> None:
        """Put a remark at the end of the line of an offset."""
        line = self._line_for_comment(at)
        if text not in self._remarks[line] and text not in self._old_remark(line):
            self._remarks[line].append(text)

    def remark_missing(self, at: int, name: str, where: str) -> None:
        """Remark that ``name`` has no counterpart; those of a line become one remark."""
        line = self._line_for_comment(at)
        old_remark = self._old_remark(line)
        if name not in self._missing[line, where] and not (
            name in old_remark and where in old_remark
        ):
            self._missing[line, where].append(name)

    def remark_texts(self) -> dict[int, str]:
        """Return the remarks by line."""
        texts: dict[int, list[str]] = defaultdict(list)
        missing: dict[tuple[int, str], list[str]] = defaultdict(list)
        for (line, where), names in self._missing.items():
            missing[self._surviving(line), where] += names
        for (line, where), names in missing.items():
            if names:
                texts[line].append(missing_text(names, where))
        for line, remarks in self._remarks.items():
            texts[self._surviving(line)].extend(remarks)
        return {line: "; ".join(remarks) for line, remarks in texts.items() if remarks}

    def line_of(self, at: int) -> int:
        """Return the line number of an offset, from 0."""
        return bisect_right(self._line_starts, at) - 1

    def remove(self, start: int, end: int) -> None:
        """Remove a span, and its line if nothing else is in it."""
        if not self.is_alone(start, end):
            self.replace(start, end, "")
            return
        rest = self._source[end : self._line_ends[self.line_of(end)]]
        end += len(rest) - len(rest.lstrip())  # a comment replaces the whole line
        self.replace(start, end, "")
        self._removed_alone[self.line_of(end)] = start, end

    def remove_items(self, items: Sequence[Item], removed: Collection[int]) -> None:
        """Remove items of a list with commas; comments of the others stay."""
        for i in sorted(removed):
            start, end, stop = items[i]
            kept_before = [item for k, item in enumerate(items[:i]) if k not in removed]
            kept_after = any(k not in removed for k in range(i + 1, len(items)))
            if self.is_alone(start, stop):
                self.remove(start, stop)
            elif (
                not kept_after
                and kept_before
                and b"#" not in self._source[kept_before[-1].end : start]
            ):
                self.replace(kept_before[-1].end, end, "")
            elif i + 1 == len(items):
                self.replace(start, stop, "")
            elif self.line_of(stop) == self.line_of(items[i + 1].start):
                self.replace(start, items[i + 1].start, "")
            else:
                self.replace(len(self._source[:start].rstrip(b" \t")), stop, "")

    def is_alone(self, start: int, end: int) -> bool:
        """Return whether the lines of a span contain nothing else but a comment."""
        before = self._source[self._line_starts[self.line_of(start)] : start].strip()
        after = self._source[end : self._line_ends[self.line_of(end)]].strip()
        return not before and (not after or after.startswith(b"#"))

    def apply(self) -> str:
        # An edit inside another one is dropped with the replaced text.
        pieces = [
            (*span, 0, text)
            for span, text in self._replacements.items()
            if not self.is_within(*span)
        ]
        remarks = self.remark_texts()
        for line in {*remarks, *self._appended, *self._removed_alone}:
            pieces.append(self._end_of_line(line, remarks.get(line)))
        result = bytearray()
        at = 0
        for start, end, _, text in sorted(pieces):
            result += self._source[at:start] + text.encode()
            at = max(at, end)
        return (result + self._source[at:]).decode()

    def _end_of_line(self, line: int, remark: str | None) -> tuple[int, int, int, str]:
        end = self._line_ends[line]
        new_lines = "".join(self.newline + text for text in self._appended[line])
        removed = self._removed_alone.get(line)
        is_kept = removed is None or removed[1] < end
        if remark is not None:
            return (end, end, 1, ("  " if is_kept else "") + REMARK + remark + new_lines)
        if removed is None or is_kept:
            return (end, end, 1, new_lines)
        next_line = self._line_starts[line + 1] if line + 1 < len(self._line_starts) else end
        return (self._line_starts[self.line_of(removed[0])], next_line, -1, "")

    def _old_remark(self, line: int) -> str:
        """Return the remark of an earlier run in the line."""
        text = self._source[self._line_starts[line] : self._line_ends[line]].decode()
        return text.partition(REMARK)[2]

    def _surviving(self, line: int) -> int:
        """Return the line that a line is joined to when its end is removed."""
        end = self._line_ends[line]
        joined = [b for a, b in self._replacements if a <= end < b]
        return self._surviving(self.line_of(max(joined))) if joined else line

    def _line_for_comment(self, at: int) -> int:
        line = self.line_of(at)
        while line in self._no_comment or self._source[: self._line_ends[line]].endswith(b"\\"):
            line += 1
        return line
