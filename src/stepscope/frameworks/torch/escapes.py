"""Notes which tensors hand their data to code that torch does not see, such as NumPy's."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any

from stepscope.record.patching import Patches

if TYPE_CHECKING:
    import ctypes
    from collections.abc import Callable

# Others, as ``numpy.asarray`` and ``torch.save``, call these. Triton launches call ``data_ptr``.
_METHODS = ("numpy", "tolist", "data_ptr", "untyped_storage", "__dlpack__")


class Escapes:
    """While started, the bridge learns of tensors whose data escapes."""

    def __init__(self, torch: Any, bridge: ctypes.CDLL) -> None:
        """Take torch, and the loaded bridge to it."""
        self._tensor = torch.Tensor
        self._bridge = bridge
        self._patches = Patches(self._replace)
        self.start, self.stop = self._patches.acquire, self._patches.release

    def _replace(self, patches: Patches) -> None:
        for name in _METHODS:
            patches.wrap(self._tensor, name, functools.partial(self._noting, patches))

    def _noting(self, patches: Patches, plain: Callable[..., Any]) -> Callable[..., Any]:
        escaped = self._bridge.stepscope_bridge_escaped

        @functools.wraps(plain)
        def method(tensor: Any, *args: Any, **kwargs: Any) -> Any:
            if patches.in_use:
                escaped(tensor._cdata)
            return plain(tensor, *args, **kwargs)

        return method
