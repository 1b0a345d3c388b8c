"""Joins a job that is named in the environment: in programs that a recorded program has started."""

from __future__ import annotations

import sys

from stepscope.cli.ranks.member import join
from stepscope.cli.ranks.order import Order
from stepscope.trace.launcher import place_of_process


def join_by_environment(text: str) -> None:
    """Join; where a launcher has made this process a rank, it records from now on."""
    if _is_our_own_command():
        return
    order = Order.of_text(text)
    join(order, is_rank=is_rank_of(order))


def is_rank_of(order: Order) -> bool:
    """Tell whether a launcher calls this process a rank, and did not call the first one so."""
    place = place_of_process()
    return place is not None and place.world_size > 1 and str(place) != order.rank_outside


def _is_our_own_command() -> bool:
    """Tell whether this process is `stepscope run` itself, which records what it runs."""
    words = sys.orig_argv[1:4]
    return words[:2] == ["-m", "stepscope"] or any(each.endswith("/stepscope") for each in words)
