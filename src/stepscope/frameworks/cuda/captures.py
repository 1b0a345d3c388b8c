"""Watching captures of CUDA graphs, on and off; ``graphs`` has what is done with the nodes."""

from __future__ import annotations

from stepscope import _native


def watch_captures() -> bool:
    """Note the nodes of the graphs that are captured from now on; CUPTI must be loaded.

    CUPTI has room for one that listens: what was begun must be ended by ``leave_captures``.
    """
    try:
        _native.watch_graphs()
    except RuntimeError:  # another tool listens: graphs stay as they are without us
        return False
    return True


def leave_captures() -> None:
    """End what ``watch_captures`` began."""
    _native.leave_graphs()
