"""Whether an installed Stepscope works: run it in the environment to try, with nothing else.

With --torch, PyTorch has to be there, and has to be recorded through a bridge that is not compiled.
Without --with-compiler there must be none on the PATH.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
import time
from importlib import metadata
from pathlib import Path
from typing import Any


def main() -> None:
    """Record, show, save and read."""
    compilers = [item for item in ("cc", "c++", "gcc", "g++", "clang++") if shutil.which(item)]
    assert not compilers or "--with-compiler" in sys.argv, f"{compilers} can be found"
    if "--torch" in sys.argv:
        check_torch()  # first: it tells how long the first operator takes, imports and all
    import stepscope

    assert stepscope.__version__ == metadata.version("stepscope")
    check_ranges(stepscope)
    check_command()
    print(f"stepscope {stepscope.__version__} works with Python {sys.version.split()[0]}")


def check_ranges(stepscope: Any) -> None:
    """Record ranges with no framework, and read back what was saved."""
    with stepscope.profile() as prof:
        with stepscope.record_function("outer"), stepscope.record_function("inner"):
            sum(range(1000))
        prof.step()
    assert {"outer", "inner"} <= {event.name for event in prof.events()}
    assert "inner" in prof.key_averages().table()
    prof.trace.save("trace.stepscope")
    assert len(stepscope.read_trace("trace.stepscope")) == len(prof.trace)


def check_command() -> None:
    """Run a program under the command that was installed."""
    Path("program.py").write_text("print(sum(range(10)))\n")
    command = Path(sys.executable).with_name("stepscope")
    words = [command, "run", "--no-report", "-o", "program.stepscope", "program.py"]
    done = subprocess.run(words, capture_output=True, text=True, check=True)
    assert done.stdout.startswith("45\n"), done.stdout
    assert "program.py" in done.stderr


def check_torch() -> None:
    """Record PyTorch with all there is: shapes, memory, stacks, modules, flops."""
    import torch

    before_s, cpu_before_s = time.perf_counter(), time.process_time()
    from stepscope import profile

    with profile(
        record_shapes=True, profile_memory=True, with_stack=True, with_modules=True, with_flops=True
    ) as prof:
        torch.ones(1).neg()
        took_s, cpu_s = time.perf_counter() - before_s, time.process_time() - cpu_before_s
        model = torch.nn.Sequential(torch.nn.Linear(8, 4), torch.nn.ReLU())
        model(torch.ones(2, 8)).sum().backward()
    result = prof.trace.info.sources["torch"]
    assert "through the bridge" in result, result
    assert not list(Path.home().rglob("*.so")), "something was compiled"
    (product,) = [event for event in prof.events() if event.name == "aten::addmm"]
    assert product.input_shapes == [[4], [2, 8], [8, 4], [], []], product.input_shapes
    assert product.flops == 2 * 2 * 8 * 4, product.flops
    assert "linear.py" in product.stack[0], product.stack
    assert product.cpu_memory_usage == 2 * 4 * 4, product.cpu_memory_usage
    assert "AddmmBackward0" in {event.name for event in prof.events()}
    assert {"0", "1"} <= set(prof.module_table().to_polars()["name"])
    cost = f"{took_s:.2f} s after `import torch` ({cpu_s:.2f} s of CPU time)"
    print(f"torch {torch.__version__}: first operator {cost}")


if __name__ == "__main__":
    main()
