"""``remember``: a decorator that keeps the results of a function whose inputs come again.

The inputs are the arguments, the attributes of ``self`` and the global values that the function
names, and those of the functions that it calls on them. Arrays and tensors count by their contents.
A call with an input that has no contents to compare is simply made.
"""

from __future__ import annotations

import dis
import functools
import sys
import types
from typing import Any, TypeVar

_Function = TypeVar("_Function")
_MOST_ITEMS = 20_000
_MOST_DEPTH = 6
_PLAIN = (int, float, complex, str, bytes, bool, type(None), range, type(Ellipsis))
_CONSTANT = (types.ModuleType, type, types.BuiltinFunctionType, types.BuiltinMethodType)
_LIMIT_BYTES = 2 << 30
_SMALL_BYTES = 1 << 12  # hashing them is faster than looking for a copy
_MOST_ARRAYS = 64  # whose copies one function keeps
_totals = {"hits": 0, "misses": 0, "bytes": 0}


class UnknownInputError(Exception):
    """An input whose contents cannot be compared, or a result that cannot be copied."""


def totals() -> dict[str, int]:
    """Return the calls that were answered from memory, those that were made, and its bytes."""
    return dict(_totals)


def remember(function: _Function) -> _Function:
    """Keep the results of a function without side effects, for inputs that come again."""
    inputs = Inputs(function)
    results: dict[Any, Any] = {}

    @functools.wraps(function)  # type: ignore[arg-type]
    def remembered(*arguments: Any, **options: Any) -> Any:
        call: Any = function
        try:
            key = inputs.key(arguments, options)
            result = results[key]
        except (UnknownInputError, TypeError):
            _totals["misses"] += 1
            return call(*arguments, **options)
        except KeyError:
            _totals["misses"] += 1
        else:
            _totals["hits"] += 1
            return copied(result)
        result = call(*arguments, **options)
        size = size_of(result)
        if _totals["bytes"] + size <= _LIMIT_BYTES:
            try:
                results[key] = copied(result)
                _totals["bytes"] += size
            except UnknownInputError:
                pass
        return result

    return remembered  # type: ignore[return-value]


class Inputs:
    """What a function reads: its arguments, attributes of ``self``, and global values."""

    def __init__(self, function: Any) -> None:
        self._code: types.CodeType = function.__code__
        self._globals: dict[str, Any] = function.__globals__
        self._closure = dict(zip(self._code.co_freevars, function.__closure__ or (), strict=False))
        names = self._code.co_varnames[: self._code.co_argcount]
        self._has_self = names[:1] == ("self",)
        self._contents: dict[int, tuple[Any, Any, Any]] = {}

    def key(self, arguments: tuple[Any, ...], options: dict[str, Any]) -> Any:
        seen: set[Any] = set()
        parts: list[Any] = []
        values = [*arguments, *options.values()]
        if self._has_self and arguments:
            parts.append(type(arguments[0]))
            parts.append(self._reads(self._code, self._globals, arguments[0], seen))
            values = values[1:]
        else:
            parts.append(self._reads(self._code, self._globals, None, seen))
        parts += [self._part(value, 0) for value in values]
        parts.append(tuple(options))
        parts += [self._part(cell.cell_contents, 0) for cell in self._closure.values()]
        return tuple(parts)

    def _reads(
        self, code: types.CodeType, names: dict[str, Any], this: Any, seen: set[Any]
    ) -> tuple[Any, ...]:
        """Return the values that code reads from ``self`` and from its module."""
        if code in seen:
            return ()
        seen.add(code)
        attributes, globals_, is_whole = reads_of(code)
        parts: list[Any] = []
        if this is not None:
            if is_whole:
                parts.append(self._part(this, 0))
            parts += [self._attribute(this, name, seen) for name in attributes]
        for name in globals_:
            if name in names:
                value = names[name]
                if isinstance(value, types.FunctionType):
                    if _is_of_program(value):
                        parts.append(self._reads(value.__code__, value.__globals__, None, seen))
                elif not isinstance(value, _CONSTANT):
                    parts.append(self._part(value, 0))
        for constant in code.co_consts:
            if isinstance(constant, types.CodeType):
                parts.append(self._reads(constant, names, this, seen))
        return tuple(parts)

    def _attribute(self, this: Any, name: str, seen: set[Any]) -> Any:
        of_class = getattr(type(this), name, None)
        function = of_class.fget if isinstance(of_class, property) else of_class
        function = getattr(function, "__wrapped__", function)
        if isinstance(function, types.FunctionType):
            return self._reads(function.__code__, function.__globals__, this, seen)
        if name not in getattr(this, "__dict__", {}):
            if of_class is None:
                raise UnknownInputError(name)
            return None if isinstance(of_class, _CONSTANT) else self._part(of_class, 0)
        return self._part(this.__dict__[name], 0)

    def _part(self, value: Any, depth: int) -> Any:
        if isinstance(value, _PLAIN):
            return (type(value), value)
        if depth > _MOST_DEPTH:
            raise UnknownInputError
        if isinstance(value, list | tuple | dict | set | frozenset):
            if len(value) > _MOST_ITEMS:
                raise UnknownInputError
            items = value.items() if isinstance(value, dict) else value
            return (type(value), tuple(self._part(item, depth + 1) for item in items))
        if isinstance(value, bytearray | memoryview):
            return bytes(value)
        if _is_array(value):
            return self._content(value)
        if isinstance(value, _CONSTANT):
            return id(value)
        if isinstance(value, types.FunctionType):
            return (id(value), self._reads(value.__code__, value.__globals__, None, set()))
        torch: Any = sys.modules.get("torch")
        if torch is not None and isinstance(value, torch.dtype | torch.device | torch.Size):
            return value
        state = _random_state(value)
        if state is not None:
            return state
        if type(value).__module__ == "builtins" or not hasattr(value, "__dict__"):
            raise UnknownInputError
        if torch is not None and isinstance(value, torch.nn.Module):
            raise UnknownInputError
        return (type(value), self._part(vars(value), depth + 1))

    def _content(self, value: Any) -> Any:
        """Return a token of an array's contents, the same one as long as they are the same."""
        earlier = self._contents.get(id(value))
        if earlier is not None and earlier[0] is value and _is_equal(value, earlier[1]):
            return earlier[2]
        data = _array_bytes(value)
        token = (str(value.dtype), tuple(value.shape), hash(data))
        if len(data) > _SMALL_BYTES and len(self._contents) < _MOST_ARRAYS:
            self._contents[id(value)] = (value, copied(value), token)
        return token


@functools.cache
def reads_of(code: types.CodeType) -> tuple[tuple[str, ...], tuple[str, ...], bool]:
    """Return the attributes of ``self`` and the globals that code reads; whether it passes self."""
    attributes: list[str] = []
    globals_: list[str] = []
    is_whole = False
    instructions = list(dis.get_instructions(code))
    for place, instruction in enumerate(instructions):
        operation = instruction.opname
        if operation in {"LOAD_GLOBAL", "LOAD_NAME"}:
            globals_.append(str(instruction.argval))
        elif operation.startswith(("LOAD_FAST", "LOAD_DEREF")) and instruction.argval == "self":
            after = instructions[place + 1]
            if after.opname in {"LOAD_ATTR", "LOAD_METHOD"}:
                attributes.append(str(after.argval))
            elif after.opname != "STORE_ATTR":
                is_whole = True
    return tuple(dict.fromkeys(attributes)), tuple(dict.fromkeys(globals_)), is_whole


def copied(value: Any) -> Any:
    """Return a copy of a result that its user may change."""
    if isinstance(value, _PLAIN):
        return value
    if isinstance(value, tuple):
        made = [copied(item) for item in value]
        return type(value)(*made) if hasattr(value, "_fields") else tuple(made)
    if isinstance(value, list):
        return [copied(item) for item in value]
    if isinstance(value, dict):
        return {copied(key): copied(item) for key, item in value.items()}
    if isinstance(value, set | frozenset):
        return type(value)(value)
    torch, numpy = sys.modules.get("torch"), sys.modules.get("numpy")
    if torch is not None and isinstance(value, torch.Tensor):
        if value.requires_grad or type(value) is not torch.Tensor:
            raise UnknownInputError
        return value.clone()
    if numpy is not None and isinstance(value, numpy.ndarray | numpy.generic):
        return value.copy() if isinstance(value, numpy.ndarray) else value
    image = sys.modules.get("PIL.Image")
    if image is not None and type(value) is image.Image:
        return value.copy()
    raise UnknownInputError(type(value).__name__)


def size_of(value: Any) -> int:
    """Return about how many bytes a result takes."""
    if isinstance(value, tuple | list | set | frozenset):
        return 64 + sum(size_of(item) for item in value)
    if isinstance(value, dict):
        return 64 + sum(size_of(item) + 64 for item in value.values())
    size: int = getattr(value, "nbytes", 0) or sys.getsizeof(value)
    return size


def _is_array(value: Any) -> bool:
    """Tell whether a value is an array or a tensor; one without bytes to read is an error."""
    numpy, torch = sys.modules.get("numpy"), sys.modules.get("torch")
    if numpy is not None and isinstance(value, numpy.ndarray | numpy.generic):
        if value.dtype.hasobject:
            raise UnknownInputError("objects")
        return True
    if torch is not None and isinstance(value, torch.Tensor):
        is_plain = value.device.type == "cpu" and value.layout is torch.strided
        if not is_plain or value.requires_grad:
            raise UnknownInputError("tensor")
        return True
    return False


def _array_bytes(value: Any) -> bytes:
    torch = sys.modules.get("torch")
    if torch is None or not isinstance(value, torch.Tensor):
        return bytes(value.tobytes())
    plain = value.detach().contiguous().flatten()
    return bytes(plain.view(torch.uint8).numpy().tobytes()) if plain.numel() else b""


def _is_equal(value: Any, copy: Any) -> bool:
    """Tell whether an array has the bytes of its copy; where bytes are hard to get, it has not."""
    torch = sys.modules.get("torch")
    if torch is not None and isinstance(value, torch.Tensor):
        kind = {1: torch.uint8, 2: torch.int16, 4: torch.int32, 8: torch.int64}.get(value.itemsize)
        if value.shape != copy.shape or value.dtype != copy.dtype or kind is None:
            return False
        return bool(torch.equal(value.detach().view(kind), copy.view(kind)))
    if value.shape != copy.shape or value.dtype != copy.dtype or value.dtype.itemsize > 8:
        return False
    kind = f"u{value.dtype.itemsize}"
    return bool((value.view(kind) == copy.view(kind)).all())


def _random_state(value: Any) -> Any:
    """Return the state of a random generator, which is an input like any other."""
    numpy, torch = sys.modules.get("numpy"), sys.modules.get("torch")
    if torch is not None and isinstance(value, torch.Generator):
        return bytes(value.get_state().numpy().tobytes())
    if numpy is not None and isinstance(value, numpy.random.Generator):
        return repr(value.bit_generator.state)
    return None


def _is_of_program(function: Any) -> bool:
    return "site-packages" not in function.__code__.co_filename and not (
        function.__code__.co_filename.startswith(sys.base_prefix)
    )
