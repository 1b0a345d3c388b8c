"""Numbers for people: the same format on the command line, in notebooks and in reports.

``report/static/units.js`` is made of the units here, and ``format.js`` writes numbers by them.
Three significant digits; a value that rounds up to the next unit gets it; halves round up.
"""

from __future__ import annotations

import math
import re
from typing import NamedTuple

EARLIEST_UNIX_NS = 10**18  # 2001: a smaller clock counts from something else

_SIZE = re.compile(r"(\d+(?:\.\d+)?)\s*([KMGT]?)(?:i?B)?", re.IGNORECASE)
_POWER_OF_1024 = {"": 0, "K": 1, "M": 2, "G": 3, "T": 4}
_DURATION = re.compile(r"(\d+(?:\.\d+)?)\s*(ns|us|µs|ms|s)")
_UNIT_NS = {"ns": 1, "us": 1e3, "µs": 1e3, "ms": 1e6, "s": 1e9}
_PREFIXES = ((1e15, "P"), (1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k"), (1, ""))


class Unit(NamedTuple):
    """What a number counts, and how it is written; ``scales`` are the largest first."""

    name: str
    one: str = ""  # what a value in files is called
    scales: tuple[tuple[float, str], ...] = ()
    is_whole: bool = False  # without decimals below the second scale

    def text(self, value: float, noun: str = "") -> str:
        """Return a value as people read it; ``noun`` is what a number counts."""
        if self == SHARE:
            return percent_text(value)
        is_whole = value == int(value)
        if self.scales:
            return _with_unit(value, self.scales, whole=self.is_whole or is_whole).rstrip()
        if is_whole:
            return count_text(int(value), noun) if noun else f"{int(value):,}"
        return f"{value:,.4g} {noun}s" if noun else f"{value:,.4g}"


def _prefixed(word: str) -> tuple[tuple[float, str], ...]:
    return tuple((size, f"{prefix}{word}") for size, prefix in _PREFIXES)


_SIZES = ((2**40, "TiB"), (2**30, "GiB"), (2**20, "MiB"), (2**10, "KiB"), (1, "B"))
UNITS = (
    TEXT := Unit("text"),
    COUNT := Unit("number"),
    RATIO := Unit("ratio"),
    SHARE := Unit("percent", "fraction"),
    SCALED := Unit("scaled", "", _PREFIXES),
    TIME := Unit("time", "ns", ((1e9, "s"), (1e6, "ms"), (1e3, "µs"), (1, "ns")), True),
    BYTES := Unit("bytes", "bytes", _SIZES, True),
    BANDWIDTH := Unit("bandwidth", "bytes/s", tuple((n, f"{unit}/s") for n, unit in _SIZES), True),
    FLOPS := Unit("flops", "", _prefixed("FLOP")),
    FLOPS_RATE := Unit("flops/s", "", _prefixed("FLOP/s")),
    BYTES_RATE := Unit("bytes/s", "", _prefixed("B/s")),
    WATTS := Unit("W", "W", ((1, "W"),), True),
    JOULES := Unit("J", "J", ((1e6, "MJ"), (1e3, "kJ"), (1, "J"), (1e-3, "mJ"))),
    MEGAHERTZ := Unit("MHz", "MHz", ((1, "MHz"),), True),
    DEGREES := Unit("°C", "°C", ((1, "°C"),), True),
)


def javascript() -> str:
    """Return the text of ``report/static/units.js``."""
    import json

    rules = {unit.name: json.dumps(unit._asdict(), ensure_ascii=False) for unit in UNITS}
    lines = "".join(f"  {json.dumps(name)}: {text},\n" for name, text in rules.items())
    return f"// Made by javascript() in units.py.\n\nexport const UNITS = {{\n{lines}}};\n"


def duration_text(ns: float) -> str:
    """Return a time in the unit that suits it: ``17.7 ms``."""
    return _with_unit(ns, TIME.scales, whole=True)


def size_text(size_bytes: float) -> str:
    """Return a size in the unit that suits it: ``160 MiB``."""
    return _with_unit(size_bytes, BYTES.scales, whole=True)


def scaled_text(value: float, unit: str = "") -> str:
    """Return a number in thousands, millions ... of a unit: ``624 TFLOP/s``, ``1.50 M``."""
    return f"{_with_unit(value, _PREFIXES, whole=value == int(value))}{unit}".rstrip()


def percent_text(part: float, whole: float = 1) -> str:
    """Return a share: ``33.3%``; a dash when the whole is 0."""
    if not whole:
        return "-"
    return f"{_sign(part / whole, 3)}{_rounded(abs(100 * part / whole), 1)}%"


def count_text(count: int, one: str, many: str = "") -> str:
    """Return a count with its noun: ``1 step``, ``12,345 steps``."""
    return f"{count:,} {one if count == 1 else many or one + 's'}"


def size_of(text: str) -> int | None:
    """Return the bytes that ``512M``, ``2GiB`` or ``200MB`` means, None for what is no size."""
    match = _SIZE.fullmatch(text.strip())
    return int(float(match[1]) * 1024 ** _POWER_OF_1024[match[2].upper()]) if match else None


def duration_of(text: str) -> float | None:
    """Return the ns that ``20ms`` or ``1.5 s`` means, None for what is no duration."""
    match = _DURATION.fullmatch(text.strip())
    return float(match[1]) * _UNIT_NS[match[2]] if match else None


def _with_unit(value: float, units: tuple[tuple[float, str], ...], *, whole: bool) -> str:
    """Format a value with its unit; below the second unit it has decimals unless ``whole``."""
    amount = abs(value)
    below = (*(size for size, _ in units[1:]), 0)
    pairs = zip(units, below, strict=True)
    size, unit = next(
        (candidate for candidate, less in pairs if amount >= candidate[0] - less / 2), units[-1]
    )
    scaled = amount / size
    few = whole and size == 1
    decimals = 0 if few or scaled >= 99.95 else 1 if scaled >= 9.995 else 2
    return f"{_sign(value / size, decimals)}{_rounded(scaled, decimals)} {unit}"


def _rounded(value: float, decimals: int) -> str:
    # As JavaScript rounds; Python itself rounds a half to the even digit.
    scaled = value * 10**decimals
    whole = math.floor(scaled)
    return f"{(whole + (scaled - whole >= 0.5)) / 10**decimals:,.{decimals}f}"


def _sign(value: float, decimals: int) -> str:
    return "-" if value * 10**decimals <= -0.5 else ""
