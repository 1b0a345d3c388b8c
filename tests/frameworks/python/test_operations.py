"""What native code an instruction runs, as it is written in the source."""

from __future__ import annotations

import dis
import linecache
from typing import TYPE_CHECKING, Any

import pytest

from stepscope.analysis.host.source_lines import place_of
from stepscope.frameworks.python.operations import (
    Operation,
    instruction_names,
    native_text,
    operations,
)

if TYPE_CHECKING:
    from types import CodeType


def texts_of(source: str) -> list[str]:
    """Return what is said of every instruction of a program that may run native code."""
    file = f"<{hash(source)}>"
    linecache.cache[file] = (len(source), None, source.splitlines(keepends=True), file)
    code = compile(source, file, "exec")
    inner = [constant for constant in code.co_consts if hasattr(constant, "co_code")]
    return [text for part in (code, *inner) for text in _texts(part, file)]


def _texts(code: CodeType, file: str) -> list[str]:
    texts = []
    for at, place in zip(range(0, len(code.co_code), 2), code.co_positions(), strict=True):
        operation = code.co_code[at]
        if operations()[operation] is not Operation.OTHER:
            line, end_line, column, end_column = (
                -1 if number is None else number for number in place
            )
            texts.append(native_text(operation, file, (line, end_line, column, end_column)))
    return texts


@pytest.mark.parametrize(
    ("source", "text"),
    [
        ("time.sleep(0.1)", "time.sleep"),
        ("sorted([3, 1])", "sorted"),
        ("np.linalg.svd(\n    a,\n    full_matrices=False,\n)", "np.linalg.svd"),
        ("self.lock.acquire()", "self.lock.acquire"),
        ("model(x)[0].sum().item()", ".item"),
        ("f(a)(b)", "f(a)"),
        ("f(')', \"(\", '''\")''')", "f"),
        ("print(*words, **{'end': ''})", "print"),
        ("größe.berechnen('ä')", "größe.berechnen"),
        ("x = a @ b", "a @ b"),
        ("x = a[mask]", "a[mask]"),
        ("x = a < b", "a < b"),
        ("x = -a", "-a"),
        ("with lock:\n    pass\n", "lock.__enter__"),
        ("with open('a:b') as file, lock:\n    pass\n", "open('a:b').__enter__"),
        ("for line in file:\n    pass\n", "next(file)"),
        ("async def f():\n    async with gate as g:\n        pass\n", "gate.__enter__"),
        ("x = [line for line in lines(a[1:2]) if line]", "next(lines(a[1:2]))"),
        ("import json", "import json"),
    ],
)
def test_native_code_is_named_by_its_expression(source: str, text: str) -> None:
    assert f"<native call {text}>" in texts_of(source)


def test_a_long_expression_is_cut() -> None:
    (text,) = {text for text in texts_of("x = " + " @ ".join(["matrix"] * 30)) if "…" in text}
    assert len(text) < 80


def test_without_a_source_there_is_no_frame() -> None:
    call = next(number for number, name in instruction_names().items() if name == "CALL")
    assert native_text(call, "<no such file>", (1, 1, 0, 5)) == ""
    assert native_text(call, __file__, (-1, -1, -1, -1)) == ""
    assert native_text(call, __file__, (10**9, 10**9, 0, 5)) == ""


def test_it_is_in_no_file() -> None:
    assert place_of("<native call time.sleep>") is None


def test_every_specialised_call_is_a_call() -> None:
    kinds = {
        name: operations()[number] for number, name in instruction_names().items() if number < 256
    }
    calls = {name for name, kind in kinds.items() if kind is Operation.CALL}
    assert {"CALL", "CALL_FUNCTION_EX"} <= calls
    assert all("CALL" in name for name in calls)
    assert len(calls) > 15
    for name in ("RESUME", "JUMP_BACKWARD", "RETURN_VALUE", "LOAD_FAST", "CALL_INTRINSIC_1"):
        assert kinds.get(name, Operation.OTHER) is Operation.OTHER
    assert len(operations()) == 256


def test_instructions_are_those_of_this_python() -> None:
    opcodes: dict[str, Any] = dis.opmap
    assert all(
        instruction_names()[number] == name for name, number in opcodes.items() if number < 256
    )
