"""What PyTorch's DataLoader does while loading."""

from __future__ import annotations

from stepscope.record.loader_ranges import LoaderRanges, ranged_fetchers

_MODULE = "torch.utils.data._utils.fetch"


class TorchLoaderRanges(LoaderRanges):
    """The source."""

    name = "DataLoader"
    module = _MODULE
    fetchers = ranged_fetchers(_MODULE)
