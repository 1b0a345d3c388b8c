"""What a kernel is called wherever people read it: tables, pages, findings.

Data frames, JSON and exported files keep the name that the trace has.
"""

from __future__ import annotations

import re
from functools import lru_cache

from stepscope import _native

_MANGLED = re.compile(r"^(_Z\w+?)(\.kd)?$")  # AMD names a kernel's descriptor
_NOISE = re.compile(
    r"^void |at::native::|\(anonymous namespace\)::"
    r"|, (at::detail::A|std::a)rray<char\*, \w+>(?= ?>)"
)


@lru_cache(maxsize=65536)
def kernel_name(name: str) -> str:
    """Return a kernel's name demangled, without common prefixes and its parameter list."""
    short = _NOISE.sub("", demangled(name))
    return short[: _argument_list(short)] or name


def demangled(name: str) -> str:
    """Return the C++ name behind a symbol; any other name as it is."""
    symbol = _MANGLED.match(name)
    return _native.demangled(symbol[1]) if symbol else name


def _argument_list(name: str) -> int:
    """Return where the arguments of a C++ function begin: its last parenthesis at the top level."""
    if not name.endswith(")"):
        return len(name)
    depth = 0
    for at in range(len(name) - 1, 0, -1):
        depth += (name[at] == ")") - (name[at] == "(")
        if depth == 0:
            # "Memcpy HtoD (Pinned -> Device)" is no function.
            return len(name) if name[at - 1] == " " else at
    return len(name)
