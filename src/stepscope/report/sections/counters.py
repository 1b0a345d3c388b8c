"""Numbers of devices over time, as rows of the timeline: power, clocks, temperature."""

from __future__ import annotations

from typing import Any

from stepscope.analysis.device.counters import device_counters
from stepscope.report.payload import Payload
from stepscope.report.sections.events import origin_of
from stepscope.report.sections.threads import process_name
from stepscope.trace.model import Trace


def add_counters(trace: Trace, payload: Payload, groups: list[dict[str, Any]]) -> None:
    """Add the counters of devices; a device without a group of rows gets one."""
    begin_ns = origin_of(trace)
    shown: list[dict[str, str]] = []
    for counter in device_counters(trace):
        name = process_name(trace.tracks[counter.track], on_host=False)
        if all(group["name"] != name for group in groups):
            groups.insert(0, {"name": name, "tracks": []})
        at = f"counters.{len(shown)}"
        payload.add_column(f"{at}.time", counter.time_ns - begin_ns, ascending=True)
        payload.add_column(f"{at}.value", counter.values)
        shown.append({"name": counter.name, "unit": counter.unit, "group": name})
    payload.add_value("timeline.counters", shown)
