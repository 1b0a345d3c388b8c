"""What a source of events is."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol, runtime_checkable

if TYPE_CHECKING:
    from stepscope.trace.build import Captured


class Source(Protocol):
    """Something that can be recorded.

    A source either writes into the recorder while it is started, or keeps events of its own and
    hands them over in ``collect``. Its methods are called in the order prepare, start, stop,
    collect; start to collect may repeat.
    """

    name: str

    def prepare(self) -> None:
        """Do everything slow, so that ``start`` is quick."""

    def start(self) -> None:
        """Begin to record."""

    def stop(self) -> None:
        """End recording."""

    def collect(self) -> Captured | None:
        """Return what the source itself kept since ``start``; None when the recorder has it."""

    def describe(self) -> str:
        """Say in a few words what is used, and why; nothing where there is nothing to say."""

    def overhead_ns(self) -> float:
        """Return the calibrated cost of one event, 0 when unknown."""


@runtime_checkable
class Watcher(Protocol):
    """A source that must see a run from its beginning, also the steps that are not recorded."""

    def open(self) -> None:
        """Begin to watch; asked again, do nothing."""

    def close(self) -> None:
        """Watch no longer; asked again, do nothing."""
