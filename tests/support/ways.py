"""Starts programs in many ways, bare and recorded; the program writes down what it sees."""

from __future__ import annotations

import json
import os
import py_compile
import re
import subprocess
import zipapp
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import stepscope
from stepscope.record.inside.boot import VARIABLE

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

PACKAGE = Path(stepscope.__file__).parent

PROBE = r"""
import sys
at_first = sorted(sys.modules)
main = {name: repr(value).partition(" at 0x")[0] for name, value in globals().items()
    if name not in ("at_first", "see")}
def see():
    import gc, io, json, os, resource, signal
    status = dict(line.split(":", 1) for line in open("/proc/self/status"))
    main["__builtins__"] = ""
    of_libc = 3 << 31 # signals 32 and 33: it catches them once there is a second thread
    try:
        cwd = os.getcwd()
    except OSError as error:
        cwd = str(error)
    data = sys.stdin.read() if sys.stdin is not None and not sys.stdin.isatty() else None
    for stream in (sys.stdout, sys.stderr):
        if stream is not None:
            main[stream.name] = [stream.encoding, stream.errors, stream.line_buffering,
                stream.write_through]
    files = {name: os.readlink(f"/proc/self/fd/{name}") for name in "012"
        if os.path.lexists(f"/proc/self/fd/{name}")}
    handlers = {number: str(signal.getsignal(number)).partition(" at 0x")[0]
        for number in signal.valid_signals()}
    return dict(
        argv=sys.argv, orig_argv=sys.orig_argv, path=sys.path, modules=at_first, main=main,
        environment={name: value for name, value in os.environ.items() if name != "STEPSCOPE_RUN"},
        raw={name.decode(): value.decode(errors="replace") for name, value in os.environb.items()
            if name != b"STEPSCOPE_RUN"},
        flags=str(sys.flags), warnoptions=sys.warnoptions, xoptions=str(sys._xoptions),
        executable=sys.executable, prefix=sys.prefix, stdin=data, cwd=cwd, signals=handlers,
        masks=[int(status[name], 16) & ~of_libc
            for name in ("SigBlk", "SigIgn", "ShdPnd", "SigPnd")],
        files=[name for name, file in files.items() if file], umask=os.umask(0o22),
        limits=[resource.getrlimit(each) for each in range(8)],
        cores=sorted(os.sched_getaffinity(0)), nice=os.nice(0), hooks=len(sys.path_hooks),
        cache=sorted(map(str, sys.path_importer_cache)), switch=sys.getswitchinterval(),
        recursion=sys.getrecursionlimit(), thresholds=gc.get_threshold(), gc=gc.isenabled(),
        observers=[sys.gettrace(), sys.getprofile()], bytecode=sys.dont_write_bytecode,
        excepthook=sys.excepthook is sys.__excepthook__, hashed=hash("text") and None,
    )
import os
shown = see()
import json
os.write(1, json.dumps(shown).encode() + b"\n")
"""

# Starts one program after the other, and writes down how each has ended.
DRIVER = """
import json, os, subprocess, sys
ends = {}
for name, (words, stdin, more) in json.load(open("ways.json")).items():
    done = subprocess.run(
        words, env={**os.environ, **more}, input=stdin, capture_output=True, text=True
    )
    ends[name] = done.returncode, done.stdout, done.stderr
json.dump(ends, open(sys.argv[1], "w"))
"""


@dataclass(frozen=True)
class Ended:
    """What a program has left."""

    code: int
    out: str
    err: str

    def without_addresses(self) -> Ended:
        """Return what is the same for every process that ends in this way."""
        return Ended(self.code, self.out, re.sub(r"0x[0-9a-f]+", "0x", self.err))

    def seen(self) -> list[dict[str, Any]]:
        """Return what each of its processes saw."""
        return [json.loads(line) for line in self.out.splitlines() if line.startswith("{")]


@dataclass(frozen=True)
class Way:
    """The words after ``stepscope run``; ``{python}`` is the interpreter, ``{here}`` a folder."""

    words: tuple[str, ...]
    is_for_python: bool = True  # bare, Python stands in front of the words
    stdin: str = ""
    environment: Mapping[str, str] = field(default_factory=dict)
    files: Mapping[str, str] = field(default_factory=dict)
    around: str = ""  # a shell's words; the command takes the place of "$@"

    def of(self, names: Mapping[str, str]) -> tuple[list[str], dict[str, str]]:
        """Return the words and the environment, for one place."""
        words = [_filled(word, names) for word in self.words]
        return words, {name: _filled(text, names) for name, text in self.environment.items()}

    def shell(self) -> list[str]:
        """Return the words in front of the command."""
        return ["sh", "-c", self.around, "sh"] if self.around else []


def of_python(*words: str, **rest: Any) -> Way:
    return Way(words, **rest)


def command(*words: str, **rest: Any) -> Way:
    return Way(words, is_for_python=False, **rest)


def shell(text: str, **rest: Any) -> Way:
    return command("sh", "-c", text, **rest)


def environment(more: Mapping[str, str] | None = None) -> dict[str, str]:
    ours = ("PYTHONPATH", "PYTEST_", "COV_", VARIABLE)
    plain = {name: value for name, value in os.environ.items() if not name.startswith(ours)}
    return {**plain, "PYTHONHASHSEED": "0", **(more or {})}


def ran(words: Sequence[str], folder: Path, stdin: str = "", **more: str) -> Ended:
    done = subprocess.run(
        words,
        cwd=folder,
        env=environment(more),
        input=stdin,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    return Ended(done.returncode, done.stdout, done.stderr)


def both(python: str, folder: Path, way: Way) -> tuple[Ended, Ended]:
    """Run a program bare, and recorded."""
    here = folder / "with blanks and ü"
    make_files(here, python, way)
    named = {"{python}": python, "{here}": str(here)}
    words, more = way.of(named)
    trace = folder / "trace.stepscope"
    run = [python, "-m", "stepscope", "run", "-q", "-o", str(trace)]
    around = way.shell()
    bare = ran([*around, *([python] if way.is_for_python else []), *words], here, way.stdin, **more)
    recorded = ran([*around, *run, *words], here, way.stdin, **more)
    assert trace.exists(), recorded
    return bare, recorded


def _filled(text: str, names: Mapping[str, str]) -> str:
    for name, value in names.items():
        text = text.replace(name, value)
    return text


def make_files(here: Path, python: str, way: Way | None = None) -> None:
    """Write the probe in all its forms, and the files of a way."""
    for folder in (here, here / "folder", here / "package"):
        folder.mkdir(parents=True)
        (folder / "__main__.py").write_text(PROBE)
    (here / "package" / "__init__.py").write_text("")
    (here / "probe.py").write_text(PROBE)
    py_compile.compile(str(here / "probe.py"), str(here / "compiled.pyc"), doraise=True)
    zipapp.create_archive(here / "folder", here / "archive.pyz")
    for name, start in (("plain", ""), ("script", f"#!/usr/bin/env -S '{python}'\n")):
        (here / name).write_text(start + PROBE)
    (here / "script").chmod(0o755)
    (here / "twice.sh").write_text(f"#!/bin/sh\n'{python}' probe.py a\n'{python}' probe.py b\n")
    (here / "twice.sh").chmod(0o755)
    for name, text in way.files.items() if way else ():
        (here / name).write_text(text)


def assert_equal(bare: Ended, recorded: Ended) -> None:
    assert recorded.without_addresses().err == bare.without_addresses().err
    assert recorded.code == bare.code
    theirs, ours = bare.seen(), recorded.seen()
    assert theirs
    assert len(theirs) == len(ours)
    for their, our in zip(theirs, ours, strict=True):
        more = set(our.pop("modules")) ^ set(their.pop("modules"))
        assert "stepscope._native" in more, "it is not recorded"
        assert not any(name.startswith("stepscope.frameworks") for name in more)
        if "dev_mode=True" in our["flags"]:  # then Python looks it up for every native extension
            more.discard("encodings.ascii")
        assert {name for name in more if name.partition(".")[0] != "stepscope"} == set()
        assert our == their
    plain = [line for line in bare.out.splitlines() if not line.startswith("{")]
    assert [line for line in recorded.out.splitlines() if not line.startswith("{")] == plain
