"""Numbers as people read them."""

from __future__ import annotations

_TIME_UNITS = (("s", 1e9), ("ms", 1e6), ("µs", 1e3), ("ns", 1.0))
_SIZE_UNITS = (("GB", 1e9), ("MB", 1e6), ("kB", 1e3), ("bytes", 1.0))


def duration_text(ns: float) -> str:
    """Return a time with three digits that count, in the unit that suits it."""
    return _with_unit(ns, _TIME_UNITS)


def size_text(size_bytes: float) -> str:
    """Return a size with three digits that count, in the unit that suits it."""
    return _with_unit(size_bytes, _SIZE_UNITS)


def count_text(count: int, one: str, many: str = "") -> str:
    """Return a count with its noun: ``1 step``, ``12,345 steps``."""
    return f"{count:,} {one if count == 1 else many or one + 's'}"


def _with_unit(value: float, units: tuple[tuple[str, float], ...]) -> str:
    # As if rounded already: 999.9 ms is 1.00 s.
    unit, size = next((u for u in units if value >= 0.9995 * u[1]), units[-1])
    scaled = value / size
    decimals = 0 if size == 1 or scaled >= 99.95 else 1 if scaled >= 9.995 else 2
    return f"{scaled:,.{decimals}f} {unit}"
