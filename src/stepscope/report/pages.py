"""The pages of a report: the section that fills a page's payload, and the module that shows it.

A page is one line here, or one call of ``PAGES.register`` from anywhere.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from importlib.resources import files
from importlib.resources.abc import Traversable
from pathlib import Path

from stepscope.registry import Registry
from stepscope.report.base.payload import Payload
from stepscope.report.sections.flame import add_flame
from stepscope.report.sections.kernels import add_kernels
from stepscope.report.sections.memory import add_memory
from stepscope.report.sections.modules import add_modules
from stepscope.report.sections.operators import add_operators
from stepscope.report.sections.overview import add_overview
from stepscope.report.sections.roofline import add_roofline
from stepscope.report.sections.source import add_source
from stepscope.report.sections.timeline import add_timeline
from stepscope.trace.model import Trace

Section = Callable[[Trace, Payload], None]

STATIC: Traversable = files(__package__) / "static"


@dataclass(frozen=True, slots=True)
class Page:
    """A page of the report.

    ``module`` is the JavaScript module that shows it, under a name of its author's: of
    ``acme/costs.js``, the text is ``costs.js`` in the folder ``static``. It exports ``page``, as
    ``static/app.js`` describes it. All scripts and style sheets of the folder are in the report.

    Of a big trace a report holds some slices only. A section that is ``by_slice``, because it adds
    a value for each slice or refers to slices by row, sees the trace with those; all others
    see the whole trace, and ask ``Payload.page_rows`` for the rows of slices that they name.
    """

    module: str
    section: Section
    by_slice: bool = False
    static: Traversable | Path = STATIC


MEMORY = Page("stepscope/pages/memory.js", add_memory)

PAGES: Registry[Page] = Registry()
PAGES.register(Page("stepscope/pages/overview.js", add_overview))
PAGES.register(Page("stepscope/pages/timeline.js", add_timeline, by_slice=True))
PAGES.register(Page("stepscope/pages/operators.js", add_operators))
PAGES.register(Page("stepscope/pages/kernels.js", add_kernels))
PAGES.register(Page("stepscope/pages/modules.js", add_modules))
PAGES.register(Page("stepscope/pages/flame.js", add_flame))
PAGES.register(MEMORY)
PAGES.register(Page("stepscope/pages/source.js", add_source))
PAGES.register(Page("stepscope/pages/roofline.js", add_roofline))
