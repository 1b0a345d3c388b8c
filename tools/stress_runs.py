"""Starts runs of one script together: each must leave its trace. ``stress_runs.py [runs]``."""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
from pathlib import Path

from stepscope import read_trace


def main() -> int:
    """Start all, wait for all, and open what they left; return 1 when one is missing."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("runs", type=int, nargs="?", default=64)
    runs = parser.parse_args().runs
    with tempfile.TemporaryDirectory(prefix="stress-") as name:
        folder = Path(name)
        (folder / "program.py").write_text("raise SystemExit(3)\n")
        words = [sys.executable, "-m", "stepscope", "run", "--no-summary", "program.py"]
        processes = [
            subprocess.Popen(words, cwd=folder, stderr=subprocess.PIPE, text=True)
            for _ in range(runs)
        ]
        values = [process.communicate()[1] for process in processes]
        by_name = {text.partition("saved ")[2].partition(" ")[0] for text in values}
        traces = sorted(folder.glob("*.stepscope"))
        for trace in traces:
            read_trace(trace)
        codes = {process.returncode for process in processes}
        rest = [path.name for path in folder.iterdir() if path not in {*traces}]
    print(f"{len(traces)} traces of {runs} runs; exit codes {codes}; besides them {rest}")
    is_right = {path.name for path in traces} == by_name and codes == {3} and rest == ["program.py"]
    return int(not (is_right and len(traces) == runs))


if __name__ == "__main__":
    sys.exit(main())
