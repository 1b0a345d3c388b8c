"""Makes a trace safe to send to others: without names of hosts, users, files and folders.

Operators, kernels, functions, modules, ranges and times stay.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from stepscope.analysis.code.own_lines import OWN, own_code, place_of
from stepscope.trace.fragments import fragment_of
from stepscope.trace.model import Trace
from stepscope.trace.schema import Track
from stepscope.trace.strings import Strings

_HOME = re.compile(r"(?:/home|/Users|[A-Za-z]:\\+Users)[/\\]+([^/\\\s\"'():]+)")
# The part of a library's path after this is equal on every machine.
_INSTALLED = re.compile(r".*(?:site-packages|dist-packages|lib/python\d[\d.]*)/", re.DOTALL)
_WHOLE_PATH = re.compile(r"(?:file://)?(?:~?/|[A-Za-z]:[/\\]|\\\\)[^\n\"]*")
_PATH = re.compile(
    r"(?<![\w/:.<])(?:file://)?(?:~?/|[A-Za-z]:\\)[^\s\"'():;,<>|]*[^\s\"'():;,<>|.]"
)
_PROGRAM = re.compile(r"[\w.@%+/\\-]*\w\.(?:py|ipynb)\b")
_PLAIN_WORDS = frozenset({"localhost", "host", "user", "root", "runner"})
_KEPT_METADATA = re.compile(r"schemaVersion|deviceProperties|distributedInfo|\w*[vV]ersion")
_IDENTITIES = re.compile(r"uuid|serial|host|user|pci", re.IGNORECASE)


@dataclass(slots=True)
class Scrubbed:
    """A scrubbed trace, and how many names were removed."""

    trace: Trace
    files: int
    hosts: int
    users: int


def scrub(trace: Trace) -> Scrubbed:
    """Return a trace without names of hosts, users, files and folders, and without source."""
    scrubber = _Scrubber(trace)
    strings = Strings.of(scrubber.text(text) for text in trace.strings.decode_all())
    info = trace.info
    scrubbed = replace(
        info,
        host="",
        revision={},
        versions=scrubber.values(info.versions),
        sources=scrubber.values(info.sources),
        devices=tuple(scrubber.values(_without_identities(device)) for device in info.devices),
        code_folders=(),
        user=scrubber.values(
            {key: value for key, value in info.user.items() if _KEPT_METADATA.fullmatch(key)}
        ),
    )
    tracks = tuple(scrubber.track(track) for track in trace.tracks)
    clean = replace(trace, strings=strings, tracks=tracks, info=scrubbed)
    return Scrubbed(clean, len(scrubber.files), len(scrubber.hosts), len(scrubber.users))


class _Scrubber:
    """Gives every file of the user a number, and every host and user the same word."""

    def __init__(self, trace: Trace) -> None:
        self._code = own_code(trace)
        texts = [*trace.strings.decode_all(), json.dumps([*trace.info.code_folders])]
        texts += [json.dumps(trace.info.user, default=str), *map(_words, trace.tracks)]
        self.users = {name for text in texts for name in _HOME.findall(text)} - _PLAIN_WORDS
        names = {trace.info.host, str(trace.info.user.get("host_name", ""))}
        names |= {name.partition(".")[0] for name in names}
        self.hosts = {name for name in names if name} - _PLAIN_WORDS
        self.files: dict[str, str] = {}
        self._words = [
            (re.compile(rf"(?<!\w){re.escape(name)}(?!\w)"), word)
            for names, word in ((self.hosts, "host"), (self.users, "user"))
            for name in sorted(names, key=len, reverse=True)
        ]

    def text(self, text: str) -> str:
        """Return a name, a frame or the inside of a JSON object without private parts."""
        place = place_of(text)
        if place is not None:
            return f"{self._file(place.file)}({place.line}): {self._plain(place.function)}"
        if text.startswith('"'):
            try:
                values = json.loads("{" + text + "}", strict=False)
            except ValueError:
                return self._plain(text)
            clean = self._value(values)
            return text if clean == values else fragment_of(clean)
        return self._plain(text)

    def values(self, values: Mapping[str, Any]) -> dict[str, Any]:
        """Return all values without private parts."""
        return {key: self._value(value) for key, value in values.items()}

    def track(self, track: Track) -> Track:
        """Return a thread with names that do not identify the machine."""
        return replace(
            track,
            pid=self._plain(track.pid),
            tid=self._plain(track.tid),
            process_name=self._plain(track.process_name),
            thread_name=self._plain(track.thread_name),
            process_label=self._plain(track.process_label),
        )

    def _value(self, value: Any) -> Any:
        if isinstance(value, str):
            return self.text(value) if place_of(value) else self._plain(value)
        if isinstance(value, dict):
            clean = _without_identities(value)
            return {self._plain(key): self._value(item) for key, item in clean.items()}
        return [self._value(item) for item in value] if isinstance(value, list | tuple) else value

    def _plain(self, text: str) -> str:
        if _WHOLE_PATH.fullmatch(text) and _is_deep(text):
            return self._file(text)
        text = _PATH.sub(self._replacement, text)
        text = _PROGRAM.sub(lambda match: self._file(match[0]), text)
        for pattern, word in self._words:
            text = pattern.sub(word, text)
        return text

    def _replacement(self, match: re.Match[str]) -> str:
        return self._file(match[0]) if _is_deep(match[0]) else match[0]

    def _file(self, path: str) -> str:
        """Shorten a library's path to the part inside the library; number other files."""
        if path.startswith("<") or path in self.files.values():
            return path  # not a file
        installed = _INSTALLED.sub("", path)
        is_relative = not path.startswith(("/", "~"))
        if installed != path or (is_relative and self._code.library(path) != OWN):
            return installed
        suffix = path[path.rfind(".") :] if re.search(r"\.\w{1,5}$", path) else ""
        return self.files.setdefault(path, f"file{len(self.files) + 1}{suffix}")


def _is_deep(path: str) -> bool:
    """Tell a path from a text that begins like one: `/`, `/predict`."""
    return len(re.findall(r"[/\\]+[^/\\]", path)) > 1


def _without_identities(values: Mapping[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in values.items() if not _IDENTITIES.search(key)}


def _words(track: Track) -> str:
    words: Iterable[str] = (track.process_name, track.thread_name, track.process_label)
    return " ".join(words)
