"""Finds and cleans up what killed programs left behind unsealed."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from stepscope.record.read_back.sealing import sealed
from stepscope.record.stream.places import is_unsealed, streams_in_memory

if TYPE_CHECKING:
    from stepscope.record.stream.places import StreamFolders


@dataclass(frozen=True, slots=True)
class Leftover:
    """The stream of a program that has ended, and what it takes of memory."""

    folders: StreamFolders
    bytes: int

    @property
    def program(self) -> str:
        return str(self.folders.about.get("program", "a program"))

    @property
    def pid(self) -> int:
        return self.folders.owner.pid

    def clean(self) -> Path | None:
        """Seal what it left, and free its memory; return the trace, None where it is gone.

        Where the folder on disk was removed, nobody wants the recording any more.
        """
        folder = Path(self.folders.disk) if self.folders.disk else None
        if folder is not None and is_unsealed(folder):
            sealed(folder)
            if is_unsealed(folder):
                return None  # it could not be sealed, and stays
        self.folders.forget_memory()
        return folder


def leftovers() -> list[Leftover]:
    """Return the leftovers of this user's programs in memory; a living program has none."""
    return [
        Leftover(folders, _bytes_in(Path(folders.memory)))
        for folders in streams_in_memory()
        if not folders.owner.is_alive()
    ]


def _bytes_in(folder: Path) -> int:
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())
