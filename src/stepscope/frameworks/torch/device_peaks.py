"""Measures the peak rates of a device: products by type, and copies.

A peak is the best of several runs, timed by the device itself. It is what a program can reach on
this machine, with its clocks and libraries, and less than the data sheet promises.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from stepscope.analysis.device.peaks import BFLOAT16, FLOAT8, FLOAT16, FLOAT32, FLOAT64, TF32
from stepscope.errors import StepscopeError

_RUNS = 8
_WARM_UP = 3
_SIDE = 8192  # of the matrices: large enough for peak rates on every device
_SIDE_WITHOUT_TENSOR_CORES = 4096  # products take fifty times as long without tensor cores
_COPY_BYTES = 1 << 30
_ROOM = 4  # a copy needs two blocks, and may use half of the free memory


@dataclass(frozen=True, slots=True)
class Measured:
    device: str
    flops_per_second: dict[str, float]  # by type, with the names of peaks.py
    bytes_per_second: float
    skipped: dict[str, str]  # by type: the reason


def measure_devices(tell: Callable[[str], None]) -> Iterator[Measured]:
    """Measure one device of each model; ``tell`` is called with a line about each measurement."""
    torch = _torch()
    seen = set()
    for index in range(torch.cuda.device_count()):
        name = torch.cuda.get_device_name(index)
        if name not in seen:
            seen.add(name)
            with torch.cuda.device(index):
                yield _measured(torch, name, tell)


def _torch() -> Any:
    try:
        import torch
    except ImportError:
        raise StepscopeError(
            "device-peaks needs PyTorch, which is not installed here; "
            "run it in the environment of your program"
        ) from None
    if not torch.cuda.is_available():
        built = (
            ""
            if torch.version.cuda or getattr(torch.version, "hip", None)
            else (f"; this PyTorch ({torch.__version__}) is built without CUDA and ROCm")
        )
        raise StepscopeError(f"device-peaks found no GPU that PyTorch can use{built}")
    return torch


def _measured(torch: Any, name: str, tell: Callable[[str], None]) -> Measured:
    flops: dict[str, float] = {}
    skipped: dict[str, str] = {}
    for kind, make in _PRODUCTS.items():
        tell(f"{name}: {kind} products")
        try:
            run, operations = make(torch)
            rate = operations / _best_seconds(torch, run)
        except (RuntimeError, AttributeError, TypeError, ValueError) as error:
            skipped[kind] = str(error).strip().partition("\n")[0]  # the device or torch lacks it
            continue
        finally:
            torch.cuda.empty_cache()
        peak = FLOAT16 if kind == BFLOAT16 else kind
        flops[peak] = max(rate, flops.get(peak, 0.0))
    tell(f"{name}: copies")
    return Measured(name, flops, _copy_rate(torch), skipped)


def _best_seconds(torch: Any, run: Callable[[], Any]) -> float:
    for _ in range(_WARM_UP):
        run()
    marks = [[torch.cuda.Event(enable_timing=True) for _ in ("begin", "end")] for _ in range(_RUNS)]
    for begin, end in marks:
        begin.record()
        run()
        end.record()
    torch.cuda.synchronize()
    return float(min(begin.elapsed_time(end) for begin, end in marks)) * 1e-3


def _copy_rate(torch: Any) -> float:
    """Return the bytes per second of a large copy; each byte is read and written."""
    free, _ = torch.cuda.mem_get_info()
    size = min(_COPY_BYTES, int(free) // _ROOM)
    source = torch.empty(size, dtype=torch.uint8, device="cuda")
    target = torch.empty_like(source)
    return float(2 * size) / _best_seconds(torch, lambda: target.copy_(source))


def _product(torch: Any, dtype: Any, side: int, *, tf32: bool = False) -> Any:
    rows, columns = (torch.randn(side, side, device="cuda").to(dtype) for _ in range(2))
    out = torch.empty_like(rows)

    def run() -> None:
        before = torch.backends.cuda.matmul.allow_tf32
        torch.backends.cuda.matmul.allow_tf32 = tf32
        try:
            torch.mm(rows, columns, out=out)
        finally:
            torch.backends.cuda.matmul.allow_tf32 = before

    return run, 2 * side**3


def _scaled_product(torch: Any) -> Any:
    """Make a product of 8-bit floats, which only a private function of torch can do."""
    is_amd = getattr(torch.version, "hip", None) and "gfx94" in (
        torch.cuda.get_device_properties(torch.cuda.current_device()).gcnArchName
    )
    dtype = torch.float8_e4m3fnuz if is_amd else torch.float8_e4m3fn
    rows = torch.randn(_SIDE, _SIDE, device="cuda").to(dtype)
    columns = (
        torch.randn(_SIDE, _SIDE, device="cuda").to(dtype).t()
    )  # the function requires columns
    one = torch.ones((), device="cuda")

    def run() -> None:
        torch._scaled_mm(
            rows, columns, scale_a=one, scale_b=one, out_dtype=torch.bfloat16, use_fast_accum=True
        )

    return run, 2 * _SIDE**3


def _tf32_product(torch: Any) -> Any:
    if getattr(torch.version, "hip", None) is None and torch.cuda.get_device_capability() < (8, 0):
        raise ValueError("the device has no tf32")
    return _product(torch, torch.float32, _SIDE, tf32=True)


_PRODUCTS: dict[str, Callable[[Any], Any]] = {
    FLOAT16: lambda torch: _product(torch, torch.float16, _SIDE),
    BFLOAT16: lambda torch: _product(torch, torch.bfloat16, _SIDE),
    FLOAT8: _scaled_product,
    TF32: _tf32_product,
    FLOAT32: lambda torch: _product(torch, torch.float32, _SIDE_WITHOUT_TENSOR_CORES),
    FLOAT64: lambda torch: _product(torch, torch.float64, _SIDE_WITHOUT_TENSOR_CORES),
}
