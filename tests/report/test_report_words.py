"""The command line and the report write the same words for the same numbers."""

from __future__ import annotations

import json
import math
import shutil
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pytest

from stepscope.units import (
    duration_text,
    javascript,
    percent_text,
    scaled_text,
    size_text,
)

if TYPE_CHECKING:
    from collections.abc import Callable

ROOT = Path(__file__).parents[2]
NODE = shutil.which("node")
SCRIPT = """
import { bytes, number, percent, scaled, time } from "stepscope/format.js";
let text = "";
for await (const chunk of process.stdin) text += chunk;
const words = (n) =>
  [time(n), bytes(n), scaled(n), scaled(n, "FLOP/s"), percent(n % 1e9, 7), number(n)];
console.log(JSON.stringify(JSON.parse(text).map(words)));
"""
WORDS: list[Callable[[float], str]] = [
    duration_text,
    size_text,
    scaled_text,
    lambda number: scaled_text(number, "FLOP/s"),
    lambda number: percent_text(math.fmod(number, 1e9), 7),
]


def numbers() -> list[float]:
    """Return round numbers, what is just beside them, ties of rounding, and many others."""
    rounds = [10.0**power for power in range(17)] + [2.0**power for power in range(50)]
    beside = [size * share for size in rounds for share in (0.99949, 0.9995, 0.9996, 1.005, 9.995)]
    ties = [12_250.0, 12_350.0, 2.5, 0.5, 1.125, 1_023.5, 999.5, 99_950.0, 9_995.0, 1_023.5 * 2**10]
    generator = np.random.default_rng(7)
    some = np.exp(generator.uniform(-1, 40, 3_000))
    values = [0.0, *rounds, *beside, *ties, *some.tolist(), *np.round(some).tolist()]
    return [*values, *(-number for number in values if number)]


def test_the_pages_units_are_made_of_ours() -> None:
    page = ROOT / "src" / "stepscope" / "report" / "static" / "units.js"
    assert page.read_text(encoding="utf-8") == javascript(), (
        "units.js is out of date: write what `python -c 'from stepscope.units import javascript; "
        'print(javascript(), end="")\'` prints'
    )


@pytest.mark.skipif(NODE is None, reason="node is not installed")
def test_python_and_javascript_agree() -> None:
    given = numbers()
    loader = ["--import", "./tests/report/js/loader.mjs"]
    done = subprocess.run(
        [str(NODE), *loader, "--input-type=module", "-e", SCRIPT],
        cwd=ROOT,
        input=json.dumps(given),
        capture_output=True,
        text=True,
        encoding="utf-8",
        check=True,
    )
    for number, theirs in zip(given, json.loads(done.stdout), strict=True):
        ours = [words(number) for words in WORDS]
        assert ours == theirs[:-1], number
        if number >= 0 and number % 1 != 0.5:
            assert theirs[-1] == f"{number:,.0f}"


@pytest.mark.parametrize(
    ("words", "number", "text"),
    [
        (duration_text, 0, "0 ns"),
        (duration_text, 17_712_345, "17.7 ms"),
        (duration_text, 8_318_609_445, "8.32 s"),
        (duration_text, 999_600, "1.00 ms"),
        (size_text, 160 * 2**20, "160 MiB"),
        (size_text, 1_023, "1,023 B"),
        (size_text, -1_536, "-1.50 KiB"),
        (scaled_text, 12, "12"),
        (scaled_text, 1_500_000, "1.50 M"),
        (percent_text, 1 / 3, "33.3%"),
        (percent_text, 0.0625, "6.3%"),
    ],
)
def test_words(words: Callable[[float], str], number: float, text: str) -> None:
    assert words(number) == text
