"""Builds Stepscope for the other Pythons of this machine and runs tests that need no framework.

    python tools/test_pythons.py tests/record tests/trace ...

Python 3.11 is what everything else is tested with.
"""

from __future__ import annotations

import shutil
import subprocess
import sys

from pythons import ROOT, environment, pip, pythons_at_hand


def main() -> int:
    """Run the tests on each; return 1 when one fails."""
    failed = []
    for version, python in pythons_at_hand().items():
        if sys.version_info[:2] == tuple(map(int, version.split("."))):
            continue
        print(f"--- Python {version}: {python}", flush=True)
        own = environment(python, ROOT / f".venv-{version}")
        pip(own, "install", "--group", "plain")
        folder = ROOT / f"build/wheel-{version}"
        shutil.rmtree(folder, ignore_errors=True)
        pip(own, "wheel", "--no-deps", "-w", str(folder), ".")
        (wheel,) = map(str, folder.glob("*.whl"))
        # Twice: one of the same version as before is installed only by force.
        pip(own, "install", "--force-reinstall", "--no-deps", wheel)
        pip(own, "install", wheel)
        words = ["-m", "pytest", "--numprocesses", "2", *sys.argv[1:]]
        if subprocess.run([own, *words], cwd=ROOT, check=False).returncode:
            failed.append(version)
    if failed:
        print(f"--- failed: Python {', '.join(failed)}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
