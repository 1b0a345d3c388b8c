"""The rules that a run is judged by.

A rule says by how much a quantity may grow over the baseline: ``0`` (not at all), ``12`` (that
many), ``"5%"``, ``"10MB"``, ``"1ms"``; ``true`` is the default allowance, ``false`` no rule. A
limit (``max``, ``min``) needs no baseline.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from difflib import get_close_matches
from typing import Any

from stepscope import units
from stepscope.analysis.quantities import quantity_names, unit_of
from stepscope.arguments import shown
from stepscope.errors import StepscopeError
from stepscope.units import duration_of, percent_text, size_of

STEP_TIME = "step_time"
DEVICE_BUSY = "device_busy"
NAMES = (STEP_TIME, *quantity_names())
_OTHER_NAMES = {"sync": "synchronisations", "syncs": "synchronisations", "memory": "peak_memory"}
_TABLES = ("max", "min", "operators")
_SETTINGS = ("baseline", "branch", "store")


@dataclass(frozen=True, slots=True)
class Allowance:
    """The accepted increase: a share of the value before, and an amount."""

    share: float = 0.0
    amount: float = 0.0

    def above(self, value: float) -> float:
        """Return the highest accepted value where ``value`` was before."""
        return value * (1 + self.share) + self.amount

    def share_of(self, value: float) -> float:
        return self.share + (self.amount / value if value else 0.0)

    def text(self, name: str) -> str:
        """Return the allowance for people."""
        if self.share:
            return f"+{percent_text(self.share)}"
        return f"+{value_text(name, self.amount)}" if self.amount else "no more"


# What ``true`` means, and what holds without any rule. Memory moves a little with the order in
# which threads come; how busy a device is, is a measurement.
DEFAULTS = {
    STEP_TIME: Allowance(0.03),
    "all_ops": Allowance(),
    "kernels": Allowance(),
    "synchronisations": Allowance(),
    "recompilations": Allowance(),
    "graph_breaks": Allowance(),
    "peak_memory": Allowance(0.01),
    DEVICE_BUSY: Allowance(amount=0.05),
}


@dataclass(frozen=True, slots=True)
class Rules:
    """The rules that a run is judged by."""

    grow: Mapping[str, Allowance] = field(default_factory=lambda: dict(DEFAULTS))
    most: Mapping[str, float] = field(default_factory=dict)
    least: Mapping[str, float] = field(default_factory=dict)
    operator_time: Mapping[str, Allowance] = field(default_factory=dict)
    operator_calls: Mapping[str, Allowance] = field(default_factory=dict)
    chosen: frozenset[str] = frozenset()  # rules that a user set

    @property
    def need_baseline(self) -> bool:
        """Tell whether a rule compares with a baseline."""
        return bool(self.grow or self.operator_time or self.operator_calls)


def rules_of(table: Mapping[str, Any], where: str = "the rules") -> Rules:
    """Return the rules of a table; one without any has the defaults."""
    grow: dict[str, Allowance] = {}
    named: set[str] = set()
    for key, value in table.items():
        if key in _SETTINGS or key in _TABLES:
            continue
        name = name_of_quantity(key, NAMES, where, also=(*_TABLES, *_SETTINGS))
        named.add(name)
        if (allowance := allowance_of(name, value, f"{where}: {key}")) is not None:
            grow[name] = allowance
    limits = {word: _limits(table.get(word, {}), f"{where}: {word}") for word in ("max", "min")}
    times, calls = _operators(table.get("operators", {}), f"{where}: operators")
    only_limits = bool(limits["max"] or limits["min"] or times or calls)
    if not named and not only_limits:
        grow = dict(DEFAULTS)
    return Rules(grow, limits["max"], limits["min"], times, calls, frozenset(named))


def name_of_quantity(name: str, names: Iterable[str], where: str, also: Iterable[str] = ()) -> str:
    """Return the name of a quantity; an unknown one is an error that lists those that exist."""
    names = tuple(names)
    plain = name.replace("-", "_").lower()
    plain = _OTHER_NAMES.get(plain, plain).replace("synchroniz", "synchronis")
    if plain in names:
        return plain
    meant = get_close_matches(plain, [*names, *also], 1)
    hint = f"did you mean {meant[0]!r}? " if meant else ""
    raise StepscopeError(
        f"{where}: there is no rule {name!r}; {hint}There are {', '.join([*names, *also])}"
    )


def value_of(name: str, value: Any, where: str) -> float:
    """Return a limit as a number: a size, a duration, a share or a count."""
    number: float | None = None
    if isinstance(value, int | float) and not isinstance(value, bool):
        number = float(value)
    elif isinstance(value, str) and unit_of(name) == units.BYTES:
        number = size_of(value)
    elif isinstance(value, str) and name == STEP_TIME:
        number = duration_of(value)
    elif isinstance(value, str) and unit_of(name) == units.SHARE:
        number = _share(value)
    elif isinstance(value, str):
        number = _number(value)
    if number is None or not 0 <= number < float("inf"):
        raise StepscopeError(f"{where}={shown(value)}: give {_wanted(name)}")
    return number


def value_text(name: str, value: float) -> str:
    return unit_of(name).text(value)


def _wanted(name: str) -> str:
    if unit_of(name) == units.BYTES:
        return 'a size, such as "200MB"'
    if name == STEP_TIME:
        return 'a time, such as "20ms"'
    return 'a share, such as "80%"' if unit_of(name) == units.SHARE else "a number, such as 0"


def allowance_of(name: str, value: Any, where: str) -> Allowance | None:
    """Return the allowance in a rule's value; None for ``false``, which disables the rule."""
    if value is False:
        return None
    if value is True:
        return DEFAULTS.get(name, Allowance())
    share = _share(value.lstrip("+-")) if isinstance(value, str) else None
    if share is not None and unit_of(name) != units.SHARE:
        return Allowance(share)
    try:
        text = value.lstrip("+-") if isinstance(value, str) else value
        return Allowance(amount=value_of(name, text, where))
    except StepscopeError:
        raise StepscopeError(
            f'{where}={shown(value)}: give by how much it may grow: 0, "5%", {_wanted(name)}, '
            "true or false"
        ) from None


def _share(text: str) -> float | None:
    number = _number(text.strip().removesuffix("%")) if text.strip().endswith("%") else None
    return None if number is None else number / 100


def _number(text: str) -> float | None:
    try:
        return float(text.replace("_", ""))
    except ValueError:
        return None


def _limits(table: Any, where: str) -> dict[str, float]:
    if not isinstance(table, dict):
        raise StepscopeError(f'{where}={shown(table)}: give a table, such as peak_memory = "4GB"')
    limits = {}
    for key, value in table.items():
        name = name_of_quantity(key, NAMES, where)
        limits[name] = value_of(name, value, f"{where}.{key}")
    return limits


def _operators(table: Any, where: str) -> tuple[dict[str, Allowance], dict[str, Allowance]]:
    if not isinstance(table, dict):
        raise StepscopeError(f'{where}={shown(table)}: give a table, such as "aten::mm" = "5%"')
    times: dict[str, Allowance] = {}
    calls: dict[str, Allowance] = {}
    for name, value in table.items():
        allowances = value if isinstance(value, dict) else {"time": value}
        for key, allowed in allowances.items():
            if key not in ("time", "calls"):
                raise StepscopeError(f"{where}.{name}: there is no {key!r}; give time or calls")
            kind = STEP_TIME if key == "time" else "ops"
            allowance = allowance_of(kind, allowed, f"{where}.{name}.{key}")
            if allowance is not None:
                (times if key == "time" else calls)[name] = allowance
    return times, calls
