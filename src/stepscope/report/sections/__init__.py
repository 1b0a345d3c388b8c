"""What a report tells: one file a section, one line here. A section fills the payload.

Of a big trace the page holds some slices only. Sections that add a value for each slice, or tell of
slices by their rows, see the trace with those; all others see the whole trace, and ask
``Payload.page_rows`` for the rows of slices that they name.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from stepscope.report.sections.events import add_events
from stepscope.report.sections.memory import add_memory
from stepscope.report.sections.overview import add_overview
from stepscope.report.sections.source import add_source
from stepscope.report.sections.tables import add_tables
from stepscope.report.sections.timeline import add_timeline

if TYPE_CHECKING:
    from collections.abc import Callable

    from stepscope.report.payload import Payload
    from stepscope.trace.model import Trace

    Section = Callable[[Trace, Payload], None]

SECTIONS_BY_SLICE: tuple[Section, ...] = (add_events, add_timeline)
SECTIONS: tuple[Section, ...] = (add_overview, add_tables, add_memory, add_source)
