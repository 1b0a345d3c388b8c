"""The page of `stepscope view` that grows with a recording, of a real program that goes on."""

from __future__ import annotations

import subprocess
import sys
import time
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import pytest

from viewing import viewing

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

PROGRAM = """
import os, sys
from stepscope import record_function

step = 0
for line in sys.stdin:
    for _ in range(int(line)):
        with record_function(f"ProfilerStep#{step}"):
            sum(range(2000))
        step += 1
    print(os.getpid(), flush=True)
"""
PATIENCE_MS = 60_000


class Program:
    """Makes so many steps whenever it is told to."""

    def __init__(self, folder: Path) -> None:
        script = folder / "stepping.py"
        script.write_text(PROGRAM)
        self.trace = folder / "stepping.stepscope"
        command = [sys.executable, "-m", "stepscope", "run", "-q", "-o", str(self.trace)]
        self.pid = 0  # of the program itself, once it has made steps
        self.process = subprocess.Popen(
            [*command, str(script)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )

    def step(self, times: int) -> None:
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        print(times, file=self.process.stdin, flush=True)
        self.pid = int(self.process.stdout.readline())

    def end(self) -> None:
        self.process.communicate()


@pytest.fixture
def program(tmp_path: Path) -> Iterator[Program]:
    program = Program(tmp_path)
    yield program
    program.process.kill()
    program.process.communicate()


def steps_shown(page: Any, count: int) -> None:
    page.wait_for_function(
        "n => document.querySelector('section.wide p')?.textContent.startsWith(`${n} steps`)",
        arg=count,
        timeout=PATIENCE_MS,
    )


@pytest.mark.slow
def test_a_recording_is_listed_grows_and_becomes_a_report(
    program: Program, tmp_path: Path, chromium: Any
) -> None:
    program.step(10)
    context = chromium.new_context(viewport={"width": 1280, "height": 800})
    page = context.new_page()
    page.set_default_timeout(PATIENCE_MS)
    troubles: list[str] = []
    page.on("pageerror", lambda error: troubles.append(str(error)))
    page.on("console", lambda message: troubles.append(message.text))
    with viewing(tmp_path) as viewed:
        page.goto(viewed.server.url)
        page.get_by_role("link", name="stepping.stepscope").click()
        steps_shown(page, 10)
        assert page.locator("h1.verdict").is_visible()
        program.step(25)
        steps_shown(page, 35)
        assert f"process {program.pid}" in str(page.locator("#now").text_content())
        program.end()
        page.get_by_role("link", name="Open its report").click()
        page.wait_for_function("() => performance.getEntriesByName('painted').length > 0")
        assert page.get_by_role("link", name="Timeline").is_visible()
    context.close()
    assert not troubles


def test_what_is_asked_of_a_recording(program: Program, tmp_path: Path) -> None:
    program.step(3)
    with viewing(tmp_path) as viewed:
        result = viewed.get("traces.json").json["traces"]
        assert [(row["name"], row["recording"]) for row in result] == [("stepping.stepscope", True)]
        assert viewed.get("live/stepping.stepscope").status == 200
        growth = viewed.get("growth/stepping.stepscope").json
        assert growth["recording"]
        assert viewed.get("look/stepping.stepscope").status in {200, 204}  # not looked at yet
        deadline = time.monotonic() + PATIENCE_MS / 1000
        while not viewed.get("growth/stepping.stepscope").json["has_data"]:
            assert time.monotonic() < deadline
            time.sleep(0.05)
        assert viewed.get("look/stepping.stepscope").status == 200
        assert not viewed.get("growth/another.stepscope").json["recording"]
        assert viewed.get("look/another.stepscope").status == 204
        gone = viewed.get("live/another.stepscope")
        assert gone.status == 303
        assert urlsplit(gone.headers["Location"]).path.endswith("/report/another.stepscope")


@pytest.mark.slow
def test_view_of_the_folder_that_is_being_written(program: Program) -> None:
    program.step(1)
    command = [sys.executable, "-m", "stepscope", "view", "--no-open", str(program.trace)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as viewer:
        assert viewer.stdout is not None
        values = [viewer.stdout.readline() for _ in range(2)]
        viewer.terminate()
    assert values[0] == f"Serving the traces of {program.trace.parent} at\n"
    assert values[1].rstrip().endswith("/live/stepping.stepscope")
