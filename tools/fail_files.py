"""Makes every file operation of ours fail once, with each errno, in export, report and run.

    python tools/fail_files.py            # all of them
    python tools/fail_files.py --every 7  # one of seven

Each call of the C library that touches the folder of the traces is counted by
tests/support/fuzzing/fail_files.c, loaded before it, and then made to fail: ENOSPC, EROFS, EINTR,
EACCES, ENOMEM. A verb then succeeds, or says so in one line and leaves nothing behind; a program
that is run ends as without us.
"""

from __future__ import annotations

import argparse
import contextlib
import ctypes
import errno
import io
import os
import shutil
import subprocess
import sys
import tempfile
from collections import Counter
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "tests" / "support"))

ERRNOS = ("ENOSPC", "EROFS", "EINTR", "EACCES", "ENOMEM")
PROGRAM = """
import stepscope
print("hello")
with stepscope.record_function("a"):
    sum(range(100_000))
print("bye")
raise SystemExit(7)
"""


def main() -> int:
    """Run all; return 1 when something went wrong."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--every", type=int, default=1, help="only one of so many operations")
    parser.add_argument("--no-run", action="store_true", help="without `stepscope run`")
    parser.add_argument("--inside", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.inside:
        return _verbs(Path(args.inside), args.every)
    with tempfile.TemporaryDirectory() as place:
        folder = Path(os.path.realpath(place))
        library = _built(folder)
        if library is None:
            print("no C compiler here: nothing was made to fail")
            return 0
        work = folder / "work"
        work.mkdir()
        environment = {**os.environ, "LD_PRELOAD": str(library), "FAIL_BELOW": f"{work}/"}
        words = [sys.executable, __file__, "--inside", str(work), "--every", str(args.every)]
        failed = subprocess.run(words, env=environment, check=False).returncode
        return failed if args.no_run else failed | _runs(work, environment, args.every)


def _built(folder: Path) -> Path | None:
    compiler = shutil.which("cc") or shutil.which("gcc") or shutil.which("clang")
    if compiler is None:
        return None
    library = folder / "fail_files.so"
    source = ROOT / "tests" / "support" / "fuzzing" / "fail_files.c"
    subprocess.run([compiler, "-shared", "-fPIC", "-O1", "-o", library, source, "-ldl"], check=True)
    return library


# --- export and report, in one process


def _verbs(work: Path, every: int) -> int:
    from fuzzing.seeds import training

    library = ctypes.CDLL(None)
    trace = work / "trace.stepscope"
    training().save(trace)
    verbs = [
        ["export", str(trace), "--force", "-o", str(work / f"out{suffix}")]
        for suffix in (".json", ".json.gz", ".stepscope", ".speedscope.json", ".pb", ".stacks")
    ] + [["report", str(trace), "--force", "-o", str(work / "out.html")]]
    failures: list[str] = []
    counts: Counter[str] = Counter()
    for words in verbs:
        output = Path(words[-1])
        _remove(output)
        assert _called(words)[0] == 0, words
        library.fail_arm(-1, 0)
        _called(words)
        operations = library.fail_calls()
        before = _content(output)
        for at in range(0, operations, every):
            for name in ERRNOS:
                library.fail_arm(at, getattr(errno, name))
                code, printed = _called(words)
                library.fail_arm(-1, 0)
                counts["said" if code else "succeeded"] += 1
                failures += _judged(words, f"call {at} fails with {name}", code, printed, work)
                if code and _content(output) != before and words[0] != "report":
                    failures.append(f"{words}: {name} at {at}: the old file is another")
                if not output.exists():
                    _called(words)
    text = ", ".join(f"{number:,} {what}" for what, number in counts.items())
    print(f"export and report: {text}; {len(failures)} wrong")
    for failure in failures[:20]:
        print(f"  {failure}")
    return 1 if failures else 0


def _called(words: list[str]) -> tuple[object, str]:
    from stepscope import notices
    from stepscope.cli import main as stepscope

    notices._shown.clear()
    printed = io.StringIO()
    with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(printed):
        try:
            return stepscope(words), printed.getvalue()
        except BaseException as error:
            return f"{type(error).__name__}: {error}", printed.getvalue()


def _judged(words: list[str], what: str, code: object, printed: str, work: Path) -> list[str]:
    wrong = []
    if code not in {0, 2}:
        wrong.append(f"{words[0]} {Path(words[-1]).name}: {what}: {code}")
    if code == 2 and len(printed.strip().splitlines()) != 1:
        wrong.append(f"{words[0]} {Path(words[-1]).name}: {what}: it says {printed!r}")
    for path in work.iterdir():
        # What could not be removed is still there: that is what was made to fail.
        if path.name.startswith(".") and code != 0:
            wrong.append(f"{words[0]} {Path(words[-1]).name}: {what}: it leaves {path.name}")
        if path.name.startswith("."):
            _remove(path)
    return wrong


def _content(path: Path) -> object:
    if path.is_dir():
        return {item.name: item.read_bytes() for item in sorted(path.iterdir())}
    return path.read_bytes() if path.exists() else None


def _remove(path: Path) -> None:
    shutil.rmtree(path) if path.is_dir() else path.unlink(missing_ok=True)


# --- run, a process each


def _runs(work: Path, environment: dict[str, str], every: int) -> int:
    report = work.parent / "calls"
    more = {"FAIL_REPORT": str(report), "TMPDIR": str(work.parent)}
    _run(work, {**environment, **more})
    operations = int(report.read_text())
    failures = []
    cases = [(at, name) for at in range(0, operations, every) for name in ERRNOS]
    for at, name in cases:
        armed = {"FAIL_AT": str(at), "FAIL_ERRNO": str(getattr(errno, name))}
        done = _run(work, {**environment, **more, **armed})
        failures += _judged_run(f"call {at} fails with {name}", done, work)
    print(f"run: {len(cases):,} runs ({operations} operations), {len(failures)} wrong")
    for failure in failures[:20]:
        print(f"  {failure}")
    return 1 if failures else 0


def _run(work: Path, environment: dict[str, str]) -> subprocess.CompletedProcess[str]:
    _remove(work)
    work.mkdir()
    (work / "program.py").write_text(PROGRAM)
    words = ["-m", "stepscope", "run", "-o", "t.stepscope", "--no-report", "program.py"]
    return subprocess.run(
        [sys.executable, *words],
        cwd=work,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )


def _judged_run(what: str, done: subprocess.CompletedProcess[str], work: Path) -> list[str]:
    wrong = []
    if "program.py'" in done.stderr and "Errno" in done.stderr:
        return []  # the program itself could not be read: Python says the same
    if done.returncode != 7:
        wrong.append(f"{what}: exit code {done.returncode}: {done.stderr[-200:]!r}")
    if "hello\nbye\n" not in done.stdout:
        wrong.append(f"{what}: the program's output is {done.stdout[:80]!r}")
    if "Traceback" in done.stderr:
        wrong.append(f"{what}: {done.stderr[-300:]!r}")
    result = done.stdout + done.stderr
    if not (work / "t.stepscope").exists() and "saved" not in result and "could not" not in result:
        wrong.append(f"{what}: nothing is saved, and nothing said: {result[-200:]!r}")
    return wrong


if __name__ == "__main__":
    sys.exit(main())
