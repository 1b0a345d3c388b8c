"""Runs programs bare and under ``stepscope run``: nothing in them may change.

``compare_programs.py [NAME ...]`` compares the output, the exit code, what was compiled (graphs,
graph breaks, recompilations) and the frameworks' classes afterwards, for each of the programs of
``model_programs.py`` that can run here, once for each set of options.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
from difflib import unified_diff
from pathlib import Path

from model_programs import available

_PROGRAMS = Path(__file__).with_name("model_programs.py")
_OPTIONS = {
    "default": (),
    "all": ("--memory", "--shapes", "--modules", "--stacks", "calls"),
    "patched": ("--patch-torch",),
}
_LONGEST_S = 600


def main() -> int:
    """Compare all, or those that are named; return 1 when one differs."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("names", nargs="*", help="of programs; all that can run here")
    parser.add_argument("--options", choices=_OPTIONS, action="append", help="all sets of them")
    given = parser.parse_args()
    names = given.names or available()
    differing = [name for name in names if not _is_equal(name, given.options or [*_OPTIONS])]
    print(f"{len(names) - len(differing)} of {len(names)} programs are the same")
    return int(bool(differing))


def _is_equal(name: str, sets: list[str]) -> bool:
    bare = _run([sys.executable, str(_PROGRAMS), name])
    equal = True
    for one_set in sets:
        with tempfile.TemporaryDirectory(prefix="compared-") as folder:
            options = [*_OPTIONS[one_set], "--no-summary", "-o", f"{folder}/run.stepscope"]
            run = [sys.executable, "-m", "stepscope", "run", *options]
            recorded = _run([*run, str(_PROGRAMS), name])
        is_same = recorded == bare
        print(f"{'same   ' if is_same else 'DIFFERS'} {name} ({one_set}): exit code {recorded[0]}")
        if not is_same:
            lines = unified_diff(
                [f"exit code {bare[0]}", *bare[1]], [f"exit code {recorded[0]}", *recorded[1]],
                "bare", "recorded", n=0, lineterm="",
            )  # fmt: skip
            print("\n".join(f"    {line[:300]}" for line in lines))
        equal &= is_same
    return equal


def _run(words: list[str]) -> tuple[int, list[str]]:
    environment = {**os.environ, "PYTHONHASHSEED": "0"}
    done = subprocess.run(
        words, capture_output=True, text=True, timeout=_LONGEST_S, check=False, env=environment
    )
    return done.returncode, done.stdout.splitlines()


if __name__ == "__main__":
    sys.exit(main())
