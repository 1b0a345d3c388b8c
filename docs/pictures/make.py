"""Makes the pictures of the README and the guides from a real recording.

    python docs/pictures/make.py [--program examples/train_resnet.py] [--output docs/pictures]

``terminal.svg`` is what `stepscope run` prints; ``report-<page>.png`` is each page of the report in
a headless Chromium, light, and of the first also dark. Needs PyTorch, Playwright and Chromium.
"""

from __future__ import annotations

import argparse
import fcntl
import os
import pty
import re
import shutil
import struct
import subprocess
import sys
import tempfile
import termios
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.text import Text

import stepscope
from stepscope.formats import read_trace
from stepscope.report.build import export_html

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT = Path(__file__).parents[2]
COLUMNS, ROWS = 118, 60
SHOWN_FOLDER = "/home/me"
WINDOW = {"width": 1200, "height": 720}
MOST_BYTES = 200_000  # of a picture: they are kept with the code
BROWSERS = ("chromium", "chromium-browser", "google-chrome")
# All that the report can show; the plain run's table fits on a terminal.
RECORDED = ("--shapes", "--memory", "--modules", "--stacks", "operators")
PAINTED = "() => performance.getEntriesByName('painted').length > 0"
# What a page shows at its best, where that is not how it opens.
STATES: dict[str, str] = {}


def main() -> None:
    """Record, draw, photograph."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--program", type=Path, default=ROOT / "examples" / "train_resnet.py")
    parser.add_argument("--output", type=Path, default=Path(__file__).parent)
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder)
        shutil.copy(args.program, place)
        plain = ["run", args.program.name]
        # The folder is the only thing in the picture that is not as it was printed.
        printed = printed_by(plain, place).replace(str(place.resolve()), SHOWN_FOLDER)
        write_terminal(f"$ stepscope {' '.join(plain)}\n{printed}", args.output / "terminal.svg")
        printed_by(["run", "-o", "trace.stepscope", *RECORDED, args.program.name], place)
        report = place / "report.html"
        export_html(read_trace(place / "trace.stepscope"), report, title=args.program.name)
        pictures = [args.output / "terminal.svg", *photographed(report, args.output)]
    for picture in pictures:
        size = picture.stat().st_size
        print(f"{picture}: {size / 1000:.0f} kB")
        if size > MOST_BYTES:
            sys.exit(f"{picture} is larger than {MOST_BYTES / 1000:.0f} kB: show less in it")


def printed_by(words: list[str], cwd: Path) -> str:
    """Run the command on a terminal of its own, so that it prints as it does for people."""
    installed = Path(sys.executable).with_name("stepscope")
    command = [str(installed)] if installed.exists() else [sys.executable, "-m", "stepscope"]
    # Found on the path, it names itself as people type it.
    path = f"{installed.parent}{os.pathsep}{os.environ['PATH']}"
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", ROWS, COLUMNS, 0, 0))
    process = subprocess.Popen(
        [*command, *words],
        cwd=cwd,
        env={
            **os.environ,
            "PATH": path,
            "PYTHONPATH": str(Path(stepscope.__file__).parents[1]),  # the one imported here
            "TERM": "xterm-256color",
            "COLUMNS": str(COLUMNS),
        },
        stdin=subprocess.DEVNULL,
        stdout=theirs,
        stderr=theirs,  # our text goes there
    )
    os.close(theirs)
    printed = b"".join(read_all(ours)).decode()
    if process.wait():
        sys.exit(f"stepscope {' '.join(words)} failed:\n{printed}")
    return printed.replace("\r\n", "\n")


def read_all(terminal: int) -> Iterator[bytes]:
    """Yield what comes from a terminal until the last program on it has ended."""
    while True:
        try:
            data = os.read(terminal, 65_536)
        except OSError:  # how Linux says that nobody writes any more
            data = b""
        if not data:
            os.close(terminal)
            return
        yield data


def write_terminal(printed: str, path: Path) -> None:
    """Draw a terminal as SVG, without the font that Rich would load from the network."""
    from rich._export_format import CONSOLE_SVG_FORMAT

    with Path(os.devnull).open("w") as nowhere:
        console = Console(record=True, width=COLUMNS, file=nowhere, force_terminal=True)
        console.print(Text.from_ansi(printed.rstrip()), soft_wrap=False)
    offline = re.sub(r"@font-face \{\{.*?\}\}\n?", "", CONSOLE_SVG_FORMAT, flags=re.DOTALL)
    svg = console.export_svg(title="stepscope", code_format=offline, unique_id="stepscope")
    assert "url(http" not in svg, "the picture must not load anything"
    path.write_text(svg, encoding="utf-8")


def photographed(report: Path, output: Path) -> Iterator[Path]:
    """Yield a picture of each page that shows something, and of the first in the dark."""
    from playwright.sync_api import sync_playwright

    browser_path = next(filter(None, map(shutil.which, BROWSERS)), None)
    if browser_path is None:
        sys.exit(f"no browser found: install one of {', '.join(BROWSERS)}")
    with sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=browser_path, args=["--no-sandbox"])
        pages = page_ids(opened(browser, report))
        for page_id in pages:
            yield shot(opened(browser, report, page_id), output / f"report-{page_id}.png")
        yield shot(
            opened(browser, report, pages[0], "dark"), output / f"report-{pages[0]}-dark.png"
        )
        browser.close()


def opened(browser: Any, report: Path, page_id: str = "", theme: str = "light") -> Any:
    """Open a report at a page."""
    page = browser.new_page(viewport=WINDOW, color_scheme=theme)
    page.goto(f"{report.as_uri()}#{STATES.get(page_id, page_id)}")
    page.wait_for_function(PAINTED)
    # Canvases draw in the next frame, and again when their box has its size.
    page.evaluate("() => new Promise(done => setTimeout(done, 500))")
    return page


def page_ids(page: Any) -> list[str]:
    """Return the pages that have something to show, in the order of the navigation."""
    script = "links => links.map(link => link.hash.slice(1).split('?')[0])"
    ids: list[str] = page.locator("#bar nav a:not(.empty)").evaluate_all(script)
    return ids


def shot(page: Any, path: Path) -> Path:
    """Take a picture of what the window shows."""
    page.screenshot(path=path)
    page.close()
    return path


if __name__ == "__main__":
    main()
