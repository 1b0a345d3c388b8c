"""Damages traces and files in every way it knows, and uses them: nothing may crash, hang or leak.

Seeded and bounded: case N of a seed is always the same. Cases run in worker processes with a limit
of memory and an alarm, so that a crash, too, is one line here.

    python tools/fuzz.py --seconds 60              # both kinds, as long as that
    python tools/fuzz.py --cases 20000 --folders --all-verbs
    python tools/fuzz.py --folders --case 1234     # that one again, with its traceback

A recording is never the same twice: its cases can be run again with --trace and a copy of it.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import resource
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "tests" / "support"))

if TYPE_CHECKING:
    from fuzzing.watched import Watch

_ALARM_S = 10
_MEMORY_BYTES = 3 << 30  # beyond what the interpreter and its libraries map
_A_WORKER = 250  # cases: a damaged length leaves address space taken in Polars


def main() -> int:
    """Run cases until the time or their number is up; return 1 when one of them failed."""
    args = _arguments()
    if args.case is not None:
        _work(args, args.case, args.case + 1, raising=True)
        return 0
    if args.worker is not None:
        _work(args, *args.worker)
        return 0
    if args.streams and not args.trace:
        with tempfile.TemporaryDirectory() as place:
            from fuzzing import streams

            values = [
                *streams.save_streams(Path(place)),
                *streams.save_streams(Path(place), "torch"),
            ]
            sys.argv += [word for path in values for word in ("--trace", str(path))]
            return _all_cases(args)
    return _all_cases(args)


def _all_cases(args: argparse.Namespace) -> int:
    started = time.monotonic()
    failed: list[str] = []
    counts: Counter[str] = Counter()
    at = args.first
    while at < args.first + args.cases and time.monotonic() - started < args.seconds:
        end = min(at + _A_WORKER, args.first + args.cases)
        at = _one_worker(range(at, end), started + args.seconds, failed, counts)
    text = ", ".join(f"{number:,} {what}" for what, number in sorted(counts.items()))
    print(f"{at - args.first:,} cases of seed {args.seed}: {text}; {len(failed)} failed")
    return 1 if failed else 0


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--first", type=int, default=0, help="the first case")
    parser.add_argument("--cases", type=int, default=10**9)
    parser.add_argument("--seconds", type=float, default=10**9)
    parser.add_argument("--folders", action="store_true", help="our own folders only")
    parser.add_argument("--streams", action="store_true", help="recordings never sealed only")
    parser.add_argument("--files", action="store_true", help="other tools' files only")
    parser.add_argument("--foreign", action="store_true", help="other profilers' files only")
    parser.add_argument("--all-verbs", action="store_true", help="all for each case, not two")
    parser.add_argument("--no-verbs", action="store_true", help="read each case, and no more")
    parser.add_argument(
        "--trace",
        action="append",
        default=[],
        help="one more to begin with; with --streams, all there are",
    )
    parser.add_argument("--case", type=int, help="run this one in this process")
    parser.add_argument("--worker", type=int, nargs=2, help=argparse.SUPPRESS)
    return parser.parse_args()


def _one_worker(span: range, deadline: float, failed: list[str], counts: Counter[str]) -> int:
    """Run cases in a process of their own; return the case with which to go on."""
    words = [*sys.argv[1:], "--worker", str(span.start), str(span.stop)]
    with (
        tempfile.TemporaryFile("w+") as errors,
        subprocess.Popen(
            [sys.executable, "-X", "faulthandler", __file__, *words],
            stdout=subprocess.PIPE,
            stderr=errors,
        ) as process,
    ):
        at, what = _listened(process, span, deadline, failed, counts)
        if process.returncode == 0 or what is None:
            return at
        code = process.returncode
        cause = f"signal {signal.Signals(-code).name}" if code < 0 else f"exit code {code}"
        failed.append(cause)
        print(f"case {at}: {what}: the process ended with {cause}", flush=True)
        errors.seek(0)
        print(errors.read()[-3000:], flush=True)
    return at + 1


def _listened(
    process: subprocess.Popen[bytes],
    span: range,
    deadline: float,
    failed: list[str],
    counts: Counter[str],
) -> tuple[int, str | None]:
    """Follow a worker to its end; return the case to go on with, or the one that it died of."""
    assert process.stdout is not None
    at, what = span.start, "before the first case"
    for line in process.stdout:
        parsed = json.loads(line)
        if parsed["said"] == "start":
            at, what = parsed["case"], parsed["what"]
            if time.monotonic() > deadline:
                process.kill()
                process.wait()
                return at, None
            continue
        counts[parsed["said"]] += 1
        if parsed["said"] == "failed":
            failed.append(parsed["what"])
            print(f"case {parsed['case']}: {parsed['what']}", flush=True)
    return (span.stop, what) if process.wait() == 0 else (at, what)


def _work(args: argparse.Namespace, first: int, end: int, *, raising: bool = False) -> None:
    from fuzzing import seeds, watched

    sys.dont_write_bytecode = True
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        for name in ("folders", "files", "foreign", "case"):
            (folder / name).mkdir()
        watch = watched.Watch(folder / "case", watched.make_outside(folder / "others"))
        os.environ["TMPDIR"] = str(folder / "case")
        tempfile.tempdir = None
        folders = list(map(Path, args.trace))
        if not args.streams:
            folders += seeds.save_folders(folder / "folders")
        files = seeds.save_foreign_files(folder / "foreign")
        if not args.foreign:
            files = seeds.save_files(folder / "files")
        _warm(files[0], folder / "case")
        if not raising:
            mapped = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
            resource.setrlimit(resource.RLIMIT_AS, (mapped + _MEMORY_BYTES,) * 2)
        for case in range(first, end):
            _one_case(args, case, (folders, files), watch, raising=raising)


def _warm(trace: Path, folder: Path) -> None:
    """Let all libraries be loaded before memory is limited."""
    from fuzzing import verbs

    verbs.use(trace, verbs.all_verbs(), folder / "out")


def _one_case(
    args: argparse.Namespace,
    case: int,
    whole_ones: tuple[list[Path], list[Path]],
    watch: Watch,
    *,
    raising: bool,
) -> None:
    from fuzzing import files as foreign
    from fuzzing import folders as own
    from fuzzing import streams, verbs, watched

    rng = random.Random(f"{args.seed}/{case}")
    only_files = args.files or args.foreign
    folder, outside = Path(watch.may_write), Path(watch.outside)
    is_folder = args.folders or args.streams or (not only_files and rng.random() < 0.5)
    folders, files = whole_ones
    if is_folder:
        whole = rng.choice(folders)
        path = own.copy(whole, folder / "case.stepscope")
        done = streams.mutate(path, rng, outside) if args.streams else own.mutate(path, rng)
        what = f"{whole.stem}: {done}"
    else:
        whole = rng.choice(files)
        path = folder / f"case{whole.suffix}"
        what = f"{whole.name}: {foreign.mutate(whole, path, rng)}"
    _say("start", case, what)
    chosen = verbs.all_verbs() if args.all_verbs else verbs.some_verbs(rng, 2)
    if args.no_verbs:
        chosen = []
    if not raising:
        # What runs for ever, and what waits for ever; other programs may take the processor.
        signal.setitimer(signal.ITIMER_PROF, _ALARM_S)
        signal.alarm(6 * _ALARM_S)
    try:
        with watched.watched(watch):
            is_used = verbs.use(path, chosen, folder / "out")
        if deeds := watch.check():
            raise verbs.Problem(f"it did what no file may lead to: {'; '.join(deeds)}")
        _say("used" if is_used else "refused", case, what)
    except verbs.Problem as problem:
        if raising:
            print(what)
            raise
        _say("failed", case, f"{what}: {problem}")
    finally:
        _stop_clocks()


def _stop_clocks() -> None:
    signal.alarm(0)
    signal.setitimer(signal.ITIMER_PROF, 0)


def _say(verdict: str, case: int, what: str) -> None:
    text = json.dumps({"said": verdict, "case": case, "what": what})
    print(text, file=sys.__stdout__, flush=True)


if __name__ == "__main__":
    sys.exit(main())
