"""Compares where torch's classes have what the bridges touch, minor by minor.

A bridge in the wheel is compiled with the headers of one minor of torch and runs with others. That
is sound while the classes that it touches look the same; this tool reads from a compiler's
debugging information how they look, and compares it with ``tests/samples/torch_layouts.json``:

    python tools/torch_headers.py && python tools/torch_layouts.py          # check
    python tools/torch_headers.py && python tools/torch_layouts.py --write  # state anew

Only minors whose headers are in build/torch-headers are looked at, and the others are named. It
needs a C++ compiler and pyelftools.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shlex
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT / "src/stepscope/frameworks/torch/bridge"))

from families import FAMILIES

if TYPE_CHECKING:
    from collections.abc import Iterator

BRIDGES = ROOT / "native/bridges"
TABLE = ROOT / "tests/samples/torch_layouts.json"
HEADERS = ROOT / "build/torch-headers"

# The classes and enumerations that the operators' bridge touches, and what of them; None: all.
OPERATORS: dict[str, tuple[str, ...] | None] = {
    "at::ObserverContext": None,
    "at::RecordFunction": None,
    "at::RecordFunctionCallback": None,
    "at::RecordFunctionCallbacksEntry": None,
    "at::RecordFunctionTLS": None,
    "at::RecordScope": None,
    "c10::Allocator": None,
    "c10::DataPtr": None,
    "c10::DeviceType": ("CPU", "CUDA"),
    "c10::IValue": None,
    "c10::IValue::Tag": None,
    "c10::Layout": ("Strided",),
    "c10::OpRegistrationListener": None,
    "c10::RegistrationHandleRAII": None,
    "c10::ScalarType": None,
    "c10::TensorImpl": (
        *("data_type_", "device_opt_", "has_symbolic_sizes_strides_", "key_set_", "numel_"),
        *("sizes_and_strides_", "layout_policy_", "sizes_strides_policy_", "storage_"),
        *("layout_custom", "layout_impl", "sizes_custom", "strides_custom", "dim_custom"),
    ),
    "c10::Type": ("kind_",),
    "c10::TypeKind": ("TensorType", "IntType", "FloatType", "BoolType", "ListType"),
    "c10::detail::ListImpl": None,
    "c10::detail::UniqueVoidPtr": None,
    "c10::impl::SizesAndStrides": None,
}
# Those that the bridge to the CUDA allocator touches.
CUDA = {
    "c10::cuda::CUDACachingAllocator::CUDAAllocator": ("attachAllocatorTraceTracker",),
    "c10::CachingDeviceAllocator::TraceEntry": None,
    "c10::CachingDeviceAllocator::TraceEntry::Action": None,
    "c10::cuda::CUDACachingAllocator::TraceEntry": None,
    "c10::cuda::CUDACachingAllocator::TraceEntry::Action": None,
}
# Where a class has virtual functions, its description is elsewhere without this.
_DESCRIBE_ALL = "-femit-class-debug-always"
# New enumerators come before these; the bridge is compiled with the newest headers of its family.
_LAST_TYPES = {"Undefined", "NumOptions"}
_WANTED: dict[str, tuple[str, ...] | None] = {**OPERATORS, **CUDA}

Layout = dict[str, dict[str, Any]]


def main() -> int:
    """Check the table, or write it."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--write", action="store_true", help="write the table instead")
    parser.add_argument("--headers", type=Path, default=HEADERS)
    args = parser.parse_args()
    expected = json.loads(TABLE.read_text()) if TABLE.exists() and not args.write else {}
    wrong = 0
    for family in FAMILIES:
        for minor in reversed(family.minors):
            if not (args.headers / minor).exists():
                print(f"torch {minor}: NOT checked, its headers are not in {args.headers}")
                continue
            layouts = layouts_of(args.headers / minor, args.headers)
            for part, layout in layouts.items():
                wrong += _compare(
                    expected,
                    part,
                    family.name if part == "operators" else minor,
                    layout,
                    f"torch {minor}",
                )
    if args.write:
        TABLE.write_text(_spelled(expected))
    return min(wrong, 1)


def _spelled(table: dict[str, Any]) -> str:
    """Return the table as JSON, with each list of numbers on one line."""
    text = json.dumps(table, indent=1, sort_keys=True)
    return re.sub(r"\[[\s\d,]+\]", lambda match: " ".join(match[0].split()), text) + "\n"


def _compare(expected: dict[str, Any], part: str, name: str, layout: Layout, who: str) -> int:
    """Print what differs from the table; a part that is not in it is put there."""
    stated = expected.setdefault(part, {}).setdefault(name, layout)
    items = list(differences(stated, layout))
    for difference in items:
        print(f"{who}: {part}: {difference}")
    if not items:
        print(f"{who}: {part}: as the bridge for {name} has it")
    return len(items)


def differences(one: Layout, other: Layout) -> Iterator[str]:
    """Yield what differs between the table and some headers."""
    for name in sorted({*one, *other}):
        a, b = one.get(name, {}), other.get(name, {})
        members = {*a, *b}
        if name == "c10::ScalarType":  # an older one may have fewer
            members = {*b} - _LAST_TYPES
        for member in sorted(members):
            stated, result = a.get(member), b.get(member)
            if stated != result:
                yield f"{name} {member}: {stated} in the table, {result} in the headers"


def layouts_of(torch_headers: Path, cuda_headers: Path | None) -> dict[str, Layout]:
    """Return what the headers say, for each bridge; nothing of CUDA's without its headers."""
    includes = [torch_headers]
    with_cuda = cuda_headers is not None and (cuda_headers / "cuda-runtime").exists()
    if with_cuda and cuda_headers is not None:
        includes += [cuda_headers / "cuda-runtime", cuda_headers / "cuda-crt", BRIDGES / "include"]
    with tempfile.TemporaryDirectory() as folder:
        made = Path(folder) / "layouts.o"
        command = [
            *shlex.split(os.environ.get("CXX", "c++")),
            *("-std=c++20", "-O0", "-gdwarf-4", _DESCRIBE_ALL, "-c", str(BRIDGES / "layouts.cpp")),
            *("-o", str(made)),
            *(["-DSTEPSCOPE_WITH_CUDA"] if with_cuda else []),
            *(word for include in includes for word in ("-isystem", str(include))),
        ]
        subprocess.run(command, check=True)
        by_name = dict(_classes(made))
    parts = {"operators": {name: by_name[name] for name in OPERATORS}}
    if with_cuda:
        parts["cuda_memory"] = {name: by_name[name] for name in CUDA if name in by_name}
    return parts


def _classes(made: Path) -> Iterator[tuple[str, dict[str, Any]]]:
    from elftools.elf.elffile import ELFFile

    with made.open("rb") as file:
        for unit in ELFFile(file).get_dwarf_info().iter_CUs():
            yield from _named(unit.get_top_DIE(), "")


_SCOPES = {"DW_TAG_namespace", "DW_TAG_class_type", "DW_TAG_structure_type"}


def _named(scope: Any, prefix: str) -> Iterator[tuple[str, dict[str, Any]]]:
    for die in scope.iter_children():
        is_enum = die.tag == "DW_TAG_enumeration_type"
        if not is_enum and die.tag not in _SCOPES:
            continue
        name = prefix + _text(die, "DW_AT_name")
        if name in _WANTED and "DW_AT_byte_size" in die.attributes:
            yield name, _described(die, _WANTED[name])
        if not is_enum and any(wanted.startswith(f"{name}::") for wanted in _WANTED):
            yield from _named(die, f"{name}::")


def _described(die: Any, members: tuple[str, ...] | None) -> dict[str, Any]:
    """Return the size and where each member stands, or what each enumerator is."""
    described: dict[str, Any] = {}
    if members is None:
        described["size"] = die.attributes["DW_AT_byte_size"].value
    for child in die.iter_children():
        name = _text(child, "DW_AT_name") or _text(child, "DW_AT_type")
        if members is not None and name not in members:
            continue
        if child.tag == "DW_TAG_enumerator":
            described[name] = child.attributes["DW_AT_const_value"].value
        elif child.tag in ("DW_TAG_member", "DW_TAG_inheritance"):
            where = [_number(child, key) for key in _PLACES if key in child.attributes]
            if where:  # a static one stands nowhere
                described[name or "(base)"] = where
        elif child.tag == "DW_TAG_subprogram" and "DW_AT_vtable_elem_location" in child.attributes:
            described[f"virtual {name}"] = child.attributes["DW_AT_vtable_elem_location"].value[1]
    return described


# In which byte, and where only some bits: how many of how many bytes, after how many.
_PLACES = (
    *("DW_AT_data_member_location", "DW_AT_byte_size", "DW_AT_bit_size", "DW_AT_bit_offset"),
    "DW_AT_data_bit_offset",
)


def _number(die: Any, key: str) -> int:
    value = die.attributes[key].value
    return int(value) if isinstance(value, int) else int(value[1])


def _text(die: Any, key: str) -> str:
    value = die.attributes[key].value if key in die.attributes else ""
    return value.decode() if isinstance(value, bytes) else ""


if __name__ == "__main__":
    sys.exit(main())
