"""What a trace says of the devices that it was recorded on."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping

    from stepscope.trace.model import Trace


def devices_of(trace: Trace) -> tuple[Mapping[str, Any], ...]:
    """Return the devices in Kineto's words: ``id``, ``name``, ``totalGlobalMem``, ``numSms``, ...

    A recording of ours knows them itself. A file of another tool says them among its metadata, and
    may say anything there.
    """
    said: Any = trace.info.devices or trace.info.user.get("deviceProperties")
    if not isinstance(said, list | tuple):
        return ()
    return tuple(about for about in said if isinstance(about, dict))
