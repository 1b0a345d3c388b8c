"""Describes torch.distributed in this process: rank, world, process groups."""

from __future__ import annotations

import sys
from contextlib import suppress
from typing import Any

from stepscope.record.collectives import Group


def distributed_info() -> dict[str, Any] | None:
    """Return torch's description of the process groups, or None."""
    dist: Any = sys.modules.get("torch.distributed")
    if dist is None or not dist.is_available() or not dist.is_initialized():
        return None
    info = {
        "backend": dist.get_backend(),
        "rank": dist.get_rank(),
        "world_size": dist.get_world_size(),
    }
    with suppress(Exception):  # newer releases of torch have it
        info["pg_count"] = dist.get_pg_count()
        info["pg_config"] = dist.distributed_c10d._get_all_pg_configs()
    if info["backend"] == "nccl":
        version = sys.modules["torch"].cuda.nccl.version()
        info["nccl_version"] = ".".join(map(str, version))
    return info


def groups_now() -> dict[str, Group]:
    """Return the process groups that this rank is in, by name."""
    dist: Any = sys.modules["torch.distributed"]
    groups: dict[str, Group] = {}
    for group in tuple(dist.distributed_c10d._world.pg_map):
        with suppress(Exception):  # a group may be under construction or destruction
            name = str(group.group_name)
            ranks = tuple(dist.get_process_group_ranks(group))
            backend = str(dist.get_backend(group))
            groups[name] = Group(name, ranks, str(getattr(group, "group_desc", "")), backend)
    return groups


class Membership:
    """The process groups during a recording; destroyed groups are remembered."""

    def __init__(self) -> None:
        self.groups: dict[str, Group] = {}
        self.info: dict[str, Any] = {}

    def look(self) -> None:
        with suppress(Exception):  # a missing description must not break the program
            info = distributed_info()
            if info is not None:
                self.groups |= groups_now()
                self.info = info

    @property
    def rank(self) -> int | None:
        return self.info.get("rank")

    def described(self) -> dict[str, Any]:
        """Return ``distributedInfo`` with all groups that existed."""
        if not self.info:
            return {}
        configs = {group["pg_name"]: group for group in self.info.get("pg_config", ())}
        gone = {
            name: group.to_torch() for name, group in self.groups.items() if name not in configs
        }
        return {**self.info, "pg_config": [*configs.values(), *gone.values()]}
