"""Which releases of torch a compiled bridge serves.

A bridge is compiled with the headers of one minor, and serves every minor whose classes look the
same where the bridge accesses them. ``tools/torch_layouts.py`` compares them, and writes the result
to ``tests/samples/torch_layouts.json``.
"""

from __future__ import annotations

from typing import NamedTuple


class Family(NamedTuple):
    """Minors of torch that one bridge serves; it is compiled with the headers of the last.

    The last minor knows the types of all, as new types are appended.
    """

    releases: dict[str, str]  # by minor, the release whose headers are used

    @property
    def minors(self) -> tuple[str, ...]:
        return tuple(self.releases)

    @property
    def name(self) -> str:
        """Return the minor whose headers the bridge is compiled with."""
        return self.minors[-1]


FAMILIES = (
    Family({"2.7": "2.7.1", "2.8": "2.8.0"}),
    # From here on, the tags of IValue are different ...
    Family({"2.9": "2.9.1", "2.10": "2.10.0", "2.11": "2.11.0", "2.12": "2.12.1"}),
    # ... and from here on, TensorImpl is different.
    Family({"2.13": "2.13.0", "2.14": "2.14.1", "2.15": "2.15.0"}),
)
# Other headers that the bridges to the CUDA allocator need, by target folder.
CUDA_HEADERS = {
    "cuda-runtime": ("nvidia-cuda-runtime-cu12", "12.8.90"),
    "cuda-crt": ("nvidia-cuda-nvcc-cu12", "12.8.93"),
}


def family_of(minor: str) -> Family | None:
    return next((family for family in FAMILIES if minor in family.releases), None)


if __name__ == "__main__":  # called by CMake
    print(*(",".join(family.minors) for family in FAMILIES))
