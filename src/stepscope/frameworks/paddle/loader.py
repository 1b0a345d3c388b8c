"""What Paddle's DataLoader does while loading."""

from __future__ import annotations

from stepscope.record.loader_ranges import LoaderRanges, ranged_fetchers

_MODULE = "paddle.io.dataloader.fetcher"


class PaddleLoaderRanges(LoaderRanges):
    """The source."""

    name = "Paddle's DataLoader"
    module = _MODULE
    fetchers = ranged_fetchers(_MODULE)
