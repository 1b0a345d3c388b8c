"""Records the work of Paddle's DataLoader, and how many workers it has."""

from __future__ import annotations

from stepscope.record.loaders import LoaderRanges, LoaderWorkers, WorkerCounts, ranged_fetchers

_MODULE = "paddle.io.dataloader.fetcher"


class PaddleLoaderRanges(LoaderRanges):
    name = "Paddle's DataLoader"
    module = _MODULE
    fetchers = ranged_fetchers(_MODULE)


class PaddleLoaderWorkers(LoaderWorkers):
    name = "workers of Paddle's DataLoader"
    counts = WorkerCounts("paddle.io.dataloader.dataloader_iter", "_DataLoaderIterBase")
