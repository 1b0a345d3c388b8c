"""What a kernel is called wherever people read it: tables, pages, findings.

Data frames, JSON and exported files keep the name that the trace has.
"""

from __future__ import annotations

import re
from functools import lru_cache

from stepscope import _native

_MANGLED = re.compile(r"^(_Z\w+?)(\.kd)?$")  # AMD names a kernel's descriptor
_LENGTH = re.compile(r"\d{1,4}")
# Types that came late into the mangling, with one that no kernel has and that counts alike among
# the substitutions: what it is called then is what they are.
_LATER_TYPES = (("DF16b", "g", "__bf16"), ("DF16_", "e", "_Float16"))
_STAND_INS = {"g": "__float128", "e": "long double"}
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
    return _demangled(symbol[1]) if symbol else name


@lru_cache(maxsize=65536)
def _demangled(symbol: str) -> str:
    """Demangle symbols that are too new for the C++ library at hand."""
    name = _native.demangled(symbol)
    if name.startswith("_Z") and any(code in symbol for code, _, _ in _LATER_TYPES):
        simplified = symbol
        for code, stand_in, _ in _LATER_TYPES:
            simplified = simplified.replace(code, stand_in)
        name = _native.demangled(simplified)
        for _, stand_in, text in _LATER_TYPES:
            name = name.replace(_STAND_INS[stand_in], text)
    return _nested_name(symbol) if name.startswith("_Z") else name


def _nested_name(symbol: str) -> str:
    """Return the function's name at the start of a symbol, without template arguments."""
    at, names = len("_ZN") if symbol.startswith("_ZN") else len("_Z"), []
    while (number := _LENGTH.match(symbol, at)) is not None:
        begin = number.end()
        at = begin + int(number[0])
        names.append(symbol[begin:at])
    if not names or at > len(symbol):
        return symbol
    return "::".join(names) + ("<...>" if symbol[at : at + 1] == "I" else "")


def _argument_list(name: str) -> int:
    """Return the index of the argument list: the last parenthesis at the top level."""
    if not name.endswith(")"):
        return len(name)
    depth = 0
    for at in range(len(name) - 1, 0, -1):
        depth += (name[at] == ")") - (name[at] == "(")
        if depth == 0:
            # "Memcpy HtoD (Pinned -> Device)" is no function.
            return len(name) if name[at - 1] == " " else at
    return len(name)
