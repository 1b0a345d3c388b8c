"""What a report tells: one file a section, one line here. A section fills the payload."""

from __future__ import annotations

from typing import TYPE_CHECKING

from stepscope.report.sections.events import add_events

if TYPE_CHECKING:
    from collections.abc import Callable

    from stepscope.report.payload import Payload
    from stepscope.trace.model import Trace

    Section = Callable[[Trace, Payload], None]

SECTIONS: tuple[Section, ...] = (add_events,)
