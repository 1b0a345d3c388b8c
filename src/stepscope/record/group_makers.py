"""The functions by which a process becomes a rank of a job; each framework registers its own."""

from __future__ import annotations

from dataclasses import dataclass

from stepscope.registry import Registry


@dataclass(frozen=True, slots=True)
class GroupMaker:
    """A function that makes the default process group."""

    function: str
    modules: tuple[str, ...]  # that have it; the import of the first is waited for
    arguments: tuple[str, ...] = ()  # those that are given by position


GROUP_MAKERS: Registry[GroupMaker] = Registry(early=True)
