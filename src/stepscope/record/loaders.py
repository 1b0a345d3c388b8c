"""Data loaders: what one does while it fetches a batch, and how many workers it has.

The fetchers and iterators of PyTorch and Paddle have the same parts under the same names.
"""

from __future__ import annotations

import functools
import sys
from functools import partial
from typing import TYPE_CHECKING, Any

from stepscope._native import record_function
from stepscope.record.options import LOADER_WORKERS, WORKERS
from stepscope.record.patching import Patches, PatchesWhenImported
from stepscope.record.source import Source

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import ClassVar


class LoaderRanges(Source):
    """A source that records each fetch, and within it each item and the collation."""

    when = WORKERS
    module: ClassVar[str]  # the module with the fetchers
    fetchers: ClassVar[Patches]

    def __init__(self) -> None:
        self._patches = PatchesWhenImported(self.module, self.fetchers)

    def start(self) -> None:
        self._patches.start()

    def stop(self) -> None:
        self._patches.stop()

    def describe(self) -> str:
        is_imported = self.module in sys.modules
        return "fetches, items and collations of data loaders" if is_imported else ""


class WorkerCounts:
    """Counts the workers of the loaders of one framework, for all recordings that ask."""

    def __init__(self, module: str, base: str) -> None:
        self.module = module
        self.patches = Patches(self._patch)
        self.listeners: list[LoaderWorkers] = []
        self._base = base

    def _patch(self, patches: Patches) -> None:
        base = getattr(sys.modules[self.module], self._base, None)
        if base is not None:
            patches.wrap(base, "__init__", self._noting)

    def _noting(self, plain: Callable[..., None]) -> Callable[..., None]:
        @functools.wraps(plain)
        def init(iterator: Any, loader: Any, *args: Any, **kwargs: Any) -> None:
            workers: Any = getattr(loader, "num_workers", 0)
            for listener in self.listeners:
                listener.most = max(listener.most or 0, workers)
            plain(iterator, loader, *args, **kwargs)

        return init


class LoaderWorkers(Source):
    """A source of one number: the largest number of workers of a loader."""

    when = LOADER_WORKERS
    counts: ClassVar[WorkerCounts]

    def __init__(self) -> None:
        self.most: int | None = None
        self._patches = PatchesWhenImported(self.counts.module, self.counts.patches)

    def start(self) -> None:
        self.most = None
        self.counts.listeners.append(self)
        self._patches.start()

    def stop(self) -> None:
        self._patches.stop()
        if self in self.counts.listeners:
            self.counts.listeners.remove(self)

    def parallelism(self) -> Mapping[str, float]:
        return {} if self.most is None else {"loader workers": float(self.most)}


def ranged_fetchers(module: str) -> Patches:
    """Return patches for the fetchers of a module."""
    return Patches(partial(_patch_fetchers, module))


def _patch_fetchers(module: str, patches: Patches) -> None:
    fetch = sys.modules[module]
    for name, of_items in (
        ("_MapDatasetFetcher", ("dataset", _Items)),
        ("_IterableDatasetFetcher", ("dataset_iter", _Iterator)),
    ):
        fetcher = getattr(fetch, name, None)
        if fetcher is not None:
            patches.wrap(fetcher, "fetch", partial(_ranged_fetch, *of_items))


def _ranged_fetch(attribute: str, wrapper: Any, plain: Callable[..., Any]) -> Callable[..., Any]:
    def fetch(self: Any, *args: Any, **kwargs: Any) -> Any:
        items, collate = getattr(self, attribute), self.collate_fn
        name = type(self.dataset).__name__
        setattr(self, attribute, wrapper(items, name))
        if collate is not None:
            self.collate_fn = record_function(_name_of(collate))(collate)
        try:
            with record_function(f"DataLoader fetch: {name}"):
                return plain(self, *args, **kwargs)
        finally:
            setattr(self, attribute, items)
            self.collate_fn = collate

    return fetch


def _name_of(function: Any) -> str:
    return f"collate: {getattr(function, '__qualname__', type(function).__name__)}"


class _Items:
    """A dataset whose item reads are ranges; all else is passed on."""

    def __init__(self, dataset: Any, name: str) -> None:
        self._dataset = dataset
        self._range = record_function(f"{name}.__getitem__")

    def __getitem__(self, index: Any) -> Any:
        with self._range:
            return self._dataset[index]

    def __getattr__(self, name: str) -> Any:
        return getattr(self._dataset, name)


class _Iterator:
    """An iterator whose items are ranges."""

    def __init__(self, items: Any, name: str) -> None:
        self._items = items
        self._range = record_function(f"{name}.__next__")

    def __iter__(self) -> _Iterator:
        return self

    def __next__(self) -> Any:
        with self._range:
            return next(self._items)
