"""The limits of a single test, and whether it exceeded them: the rules of pytest's mark.

Everything recorded counts, with or without steps. Nothing is timed, so that a test gives the same
result on a busy machine.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from difflib import get_close_matches
from pathlib import Path
from typing import Any

from stepscope.analysis.quantities import (
    Quantity,
    Share,
    quantities,
    quantity_names,
    unit_of,
    words_of,
)
from stepscope.arguments import shown
from stepscope.errors import StepscopeError
from stepscope.gate.judge import grown_row
from stepscope.gate.rules import Allowance, allowance_of, name_of_quantity, value_of, value_text
from stepscope.trace.model import Trace
from stepscope.trace.placing import staging_folder

REGRESSION = "no_regression"
_MOST, _LEAST = "max_", "min_"
_FORMAT = 1
_ROWS_KEPT = 40
# What is compared with the baseline unless something else is named: what does not depend on the
# machine. Memory moves a little with the order in which threads come.
_COMPARED = {
    **{name: Allowance() for name in ("all_ops", "kernels", "synchronisations")},
    **{name: Allowance() for name in ("recompilations", "graph_breaks", "copies")},
    "peak_memory": Allowance(0.01),
}
_CALLED = {"all_ops": "ops"}  # operators that the program calls: each may call others
_NEED_MEMORY = {"peak_memory", "allocated_bytes"}
_NEED_SHAPES = {"flops"}


@dataclass(frozen=True, slots=True)
class Limits:
    most: Mapping[str, float] = field(default_factory=dict)
    least: Mapping[str, float] = field(default_factory=dict)
    grow: Mapping[str, Allowance] = field(default_factory=dict)

    @property
    def names(self) -> set[str]:
        return {*self.most, *self.least, *self.grow}

    @property
    def need_memory(self) -> bool:
        return bool(self.names & _NEED_MEMORY)

    @property
    def need_shapes(self) -> bool:
        return bool(self.names & _NEED_SHAPES)


def limits_of(given: Mapping[str, Any], where: str) -> Limits:
    """Return the limits in a mark's arguments."""
    most: dict[str, float] = {}
    least: dict[str, float] = {}
    grow: dict[str, Allowance] = {}
    for key, value in given.items():
        if key == REGRESSION:
            grow = _compared(value, where)
        elif key.startswith((_MOST, _LEAST)):
            name = _quantity_name(key[len(_MOST) :], key, where)
            bounds = most if key.startswith(_MOST) else least
            bounds[name] = value_of(name, value, f"{where}: {key}")
        else:
            raise _no_such(key, where)
    return Limits(most, least, grow)


def _quantity_name(name: str, key: str, where: str) -> str:
    try:
        return name_of_quantity(name, quantity_names(), where)
    except StepscopeError:
        raise _no_such(key, where) from None


def _no_such(key: str, where: str) -> StepscopeError:
    names = [f"{_MOST}{name}" for name in quantity_names()]
    meant = get_close_matches(key, [*names, "max_sync", REGRESSION], 1)
    hint = f"did you mean {meant[0]!r}? " if meant else ""
    listed = ", ".join(names)
    return StepscopeError(
        f"{where}: there is no argument {key!r}; {hint}There are {listed}, the same with {_LEAST}, "
        f"and {REGRESSION}"
    )


def _compared(value: Any, where: str) -> dict[str, Allowance]:
    if isinstance(value, bool):
        return dict(_COMPARED) if value else {}
    if isinstance(value, str):
        value = [value]
    if isinstance(value, list | tuple | set):
        value = dict.fromkeys(value, True)
    if not isinstance(value, dict):
        raise StepscopeError(
            f'{where}: {REGRESSION}={shown(value)}: give True, names such as ["ops"], or '
            '{"peak_memory": "5%"}'
        )
    allowances: dict[str, Allowance] = {}
    for key, allowed in value.items():
        name = name_of_quantity(str(key), quantity_names(), f"{where}: {REGRESSION}")
        allowance = allowance_of(name, allowed, f"{where}: {REGRESSION}: {key}")
        if allowance is not None:
            allowances[name] = allowance
    return allowances


def broken(
    trace: Trace, limits: Limits, baseline: Mapping[str, Quantity] | None = None
) -> Iterator[str]:
    """Yield a sentence for each broken rule, with what broke it."""
    measured = quantities(trace)
    if trace.info.losses.events:
        yield f"{trace.info.losses.events:,} events were lost in recording: nothing can be counted"
    for bounds, is_most in ((limits.most, True), (limits.least, False)):
        for name, bound in bounds.items():
            total = measured[name].total
            if total is None:
                yield f"{words_of(name)} cannot be counted: {measured[name].why_not}"
            elif (total > bound) if is_most else (total < bound):
                word = "at most" if is_most else "at least"
                amount = measured[name].text(total)
                quantity = measured[name]
                rows = "".join(
                    f"\n  {row.words}: {quantity.text(row.total)}" for row in quantity.rows[:3]
                )
                yield (
                    f"{words_of(name)}: {amount}, and {word} {value_text(name, bound)} is allowed"
                    f"{rows if is_most else ''}"
                )
    if baseline is not None:
        yield from _regressions(measured, limits, baseline)


def _regressions(
    measured: Mapping[str, Quantity], limits: Limits, baseline: Mapping[str, Quantity]
) -> Iterator[str]:
    for name, allowance in limits.grow.items():
        now, before = measured[name], baseline.get(name)
        if before is None or before.total is None or now.total is None:
            continue  # the baseline lacks it, or there is no device
        if now.total > allowance.above(before.total):
            asked = _CALLED.get(name, name)
            guilty = ""
            if asked in baseline:
                guilty = grown_row([baseline[asked]], [measured[asked]])
            guilty = guilty or grown_row([before], [now])
            yield (
                f"{words_of(name)}: {now.text(now.total)}, and the baseline has "
                f"{now.text(before.total)}{f'{chr(10)}  mostly {guilty}' if guilty else ''}"
            )


# ---- baselines: small files, to be kept with the tests


def save_baseline(path: Path, trace: Trace, limits: Limits) -> None:
    """Write a test's quantities, whole or not at all."""
    measured = quantities(trace)
    content = {
        "format": _FORMAT,
        "versions": dict(trace.info.versions),
        "quantities": {
            name: {
                "total": measured[name].total,
                "rows": [
                    [row.name, row.total, [list(place) for place in row.places]]
                    for row in measured[name].rows[:_ROWS_KEPT]
                ],
            }
            for name in sorted({*limits.grow, *(_CALLED.get(name, name) for name in limits.grow)})
            if measured[name].total is not None
        },
    }
    path.parent.mkdir(parents=True, exist_ok=True)
    with staging_folder(path.parent) as folder:
        made = folder / path.name
        made.write_text(json.dumps(content, indent=1, ensure_ascii=True) + "\n", encoding="utf-8")
        made.replace(path)


def _share(name: str, total: float, places: list[list[Any]]) -> Share:
    return Share(str(name), float(total), tuple((str(p), float(amount)) for p, amount in places))


def load_baseline(path: Path) -> dict[str, Quantity] | None:
    """Return a test's quantities when its baseline was saved; None without one."""
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
        stored = content["quantities"]
        return {
            name: Quantity(
                name,
                words_of(name),
                unit_of(name),
                float(quantity["total"]),
                (),
                tuple(_share(*row) for row in quantity["rows"]),
            )
            for name, quantity in stored.items()
            if name in quantity_names()
        }
    except FileNotFoundError:
        return None
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise StepscopeError(
            f"{path}: not a baseline that can be read ({type(error).__name__}: {error}); "
            "pytest --stepscope-update writes it again"
        ) from None
