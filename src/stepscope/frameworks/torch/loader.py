"""Records the work of PyTorch's DataLoader, and how many workers it has."""

from __future__ import annotations

from stepscope.record.loaders import LoaderRanges, LoaderWorkers, WorkerCounts, ranged_fetchers

_MODULE = "torch.utils.data._utils.fetch"


class TorchLoaderRanges(LoaderRanges):
    name = "DataLoader"
    module = _MODULE
    fetchers = ranged_fetchers(_MODULE)


class TorchLoaderWorkers(LoaderWorkers):
    name = "workers of DataLoader"
    counts = WorkerCounts("torch.utils.data.dataloader", "_BaseDataLoaderIter")
