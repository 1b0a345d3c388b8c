"""Functions of others, replaced while somebody wants that and then exactly restored."""

from __future__ import annotations

import os
import threading
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable


class Patch:
    """One function of somebody else's, replaced from the first ``install`` to the last ``remove``.

    The replacement must do nothing of its own while ``is_wanted`` is false: whoever wrapped it
    keeps it in their chain when it can no longer be taken out.
    """

    def __init__(self, owner: Any, name: str, replacement: Callable[[Any, Patch], Any]) -> None:
        """Take where the function is, and what makes its replacement from the plain one.

        A patch lives as long as the process: make one for each function, once.
        """
        self.is_wanted = False
        self._owner = owner
        self._name = name
        self._replacement = replacement
        self._users = 0
        self._plain: Any = None
        self._replaced: Any = None  # None: it is in nobody's chain
        self._lock = threading.Lock()
        os.register_at_fork(after_in_child=self._reset_in_child)

    def install(self) -> None:
        """Replace the function, if it is not replaced yet."""
        with self._lock:
            self._users += 1
            current = vars(self._owner)[self._name]
            if self._replaced is None or current is self._plain:
                self._plain = current
                self._replaced = self._replacement(current, self)
                setattr(self._owner, self._name, self._replaced)
            self.is_wanted = True

    def remove(self) -> None:
        """Put the plain function back, if nobody else wants the other."""
        with self._lock:
            self._users -= 1
            if not self._users:
                self._restore()

    def _restore(self) -> None:
        self.is_wanted = False
        if vars(self._owner).get(self._name) is self._replaced:
            setattr(self._owner, self._name, self._plain)
            self._replaced = None

    def _reset_in_child(self) -> None:
        self._lock = threading.Lock()  # a thread that does not exist here may have held it
        if self._users:
            self._users = 0
            self._restore()
