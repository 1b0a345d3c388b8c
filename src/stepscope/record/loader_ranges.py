"""What a data loader does while loading: it fetches batches, reads items and collates them.

The fetchers of PyTorch and Paddle have the same parts under the same names.
"""

from __future__ import annotations

import sys
from functools import partial
from typing import TYPE_CHECKING, Any

from stepscope._native import record_function
from stepscope.record.options import WORKERS
from stepscope.record.patching import Patches, PatchesWhenImported
from stepscope.record.source import Source

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import ClassVar


class LoaderRanges(Source):
    """A source: a range around every fetch, and in it around each item and the collation."""

    when = WORKERS
    module: ClassVar[str]  # that has the fetchers
    fetchers: ClassVar[Patches]

    def __init__(self) -> None:
        """Touch nothing yet."""
        self._patches = PatchesWhenImported(self.module, self.fetchers)

    def start(self) -> None:
        """Mark fetches from now on."""
        self._patches.start()

    def stop(self) -> None:
        """Mark them no longer."""
        self._patches.stop()

    def describe(self) -> str:
        """Say what is recorded."""
        is_imported = self.module in sys.modules
        return "fetches, items and collations of data loaders" if is_imported else ""


def ranged_fetchers(module: str) -> Patches:
    """Return the replacements for the fetchers of a module."""
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
    """A dataset whose items are read in ranges; in all else it is the dataset."""

    def __init__(self, dataset: Any, name: str) -> None:
        self._dataset = dataset
        self._range = record_function(f"{name}.__getitem__")

    def __getitem__(self, index: Any) -> Any:
        with self._range:
            return self._dataset[index]

    def __getattr__(self, name: str) -> Any:
        return getattr(self._dataset, name)


class _Iterator:
    """An iterator whose items come in ranges."""

    def __init__(self, items: Any, name: str) -> None:
        self._items = items
        self._range = record_function(f"{name}.__next__")

    def __iter__(self) -> _Iterator:
        return self

    def __next__(self) -> Any:
        with self._range:
            return next(self._items)
