"""The types of a tensor's elements, by their names in frameworks, files and C++."""

from __future__ import annotations

from typing import NamedTuple


class ElementType(NamedTuple):
    name: str  # the name in NumPy and in frameworks
    bytes: int
    kineto: str  # torch's name in the arguments of a collective

    @property
    def is_integer(self) -> bool:
        """Return whether values are whole numbers; booleans are not."""
        return self.name.startswith(("int", "uint", "bool"))

    @property
    def kind(self) -> str:
        """Return the type that devices distinguish: signs and variants of float8 do not matter."""
        if self.is_integer:
            return f"int{8 * self.bytes}"
        return "float8" if self.name.startswith("float8") else self.name


_TYPES = {
    ElementType("float64", 8, "Double"): (),
    ElementType("float32", 4, "Float"): (),
    ElementType("float16", 2, "Half"): (),
    ElementType("bfloat16", 2, "BFloat16"): (),
    ElementType("complex64", 8, "ComplexFloat"): ("complex<float>",),
    ElementType("complex128", 16, "ComplexDouble"): ("complex<double>",),
    ElementType("int64", 8, "Long"): ("long int", "long long"),
    ElementType("int32", 4, "Int"): (),
    ElementType("int16", 2, "Short"): ("short int",),
    ElementType("int8", 1, "Char"): ("signed char",),
    ElementType("uint64", 8, "UInt64"): ("unsigned long",),
    ElementType("uint32", 4, "UInt32"): ("unsigned int",),
    ElementType("uint16", 2, "UInt16"): ("unsigned short",),
    ElementType("uint8", 1, "Byte"): ("unsigned char",),
    ElementType("bool", 1, "Bool"): (),
    **{
        ElementType(f"float8_{kind}", 1, f"Float8_{kind}"): ()
        for kind in ("e4m3fn", "e5m2", "e4m3fnuz", "e5m2fnuz")
    },
}
_BY_WORD = {
    word.lower(): element
    for element, words in _TYPES.items()
    for word in (element.name, element.kineto, *words)
}


def element_type(word: str) -> ElementType | None:
    """Return the type for a word such as ``c10::Half``; None if unknown."""
    return _BY_WORD.get(word.removeprefix("c10::").lower())


def element_bytes(word: str) -> int:
    """Return the size of an element; 0 for an unknown type."""
    kind = element_type(word)
    return kind.bytes if kind else 0
