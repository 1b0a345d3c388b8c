"""Makes torch.compile treat Stepscope's ranges like torch's own."""

from __future__ import annotations

from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from stepscope import _native
from stepscope._native import record_function

if TYPE_CHECKING:
    from collections.abc import Iterator

_PACKAGE = Path(__file__).parents[2]
# These wrap functions of the program and are compiled with them.
_COMPILED = (Path("record/decorate.py"), Path("frameworks/torch/phases.py"))


@cache
def keep_dynamo_out() -> None:
    """Stop Dynamo from looking at our code in calls that it watches; needs torch.

    Dynamo would try to compile it, and count that among the program's graphs and graph breaks.
    """
    with suppress(ImportError):
        from torch._C._dynamo.eval_frame import set_eval_frame

        _native.set_compiler_switch(set_eval_frame)


def teach_dynamo() -> None:
    """Have Dynamo skip our code and treat our ranges as ``torch.profiler.record_function``.

    Dynamo knows its context managers by class. Where a release of torch keeps them elsewhere, our
    ranges break graphs, as those of any unknown class do.
    """
    with suppress(ImportError, AttributeError, ValueError):
        from torch._dynamo import trace_rules

        trace_rules.SKIP_DIRS.extend(_skipped(_PACKAGE))
        trace_rules._recompile_re()
    try:
        import torch.autograd.profiler
        from torch._dynamo.variables import builder, ctx_manager
        from torch._dynamo.variables import torch as variables

        classes = variables.supported_ctx_manager_classes
        manager = variables.TorchCtxManagerClassVariable
        if record_function in classes:
            return
        _teach_calls(manager, torch.autograd.profiler.record_function)
        classes[record_function] = None
        if hasattr(ctx_manager, "RecordFunctionVariable"):
            _teach_objects(builder, ctx_manager.RecordFunctionVariable)
    except (ImportError, AttributeError):
        return


def _skipped(folder: Path) -> Iterator[str]:
    """Yield the folders and files of the package that hold nothing to compile."""
    for path in sorted(folder.iterdir()):
        inside = path.relative_to(_PACKAGE)
        if any(inside in compiled.parents for compiled in _COMPILED):
            yield from _skipped(path)
        elif inside not in _COMPILED:
            yield str(path)


def _teach_calls(manager: Any, theirs: type) -> None:
    """Support ranges in compiled code: ``with record_function("name"):``."""
    call_function = manager.call_function

    def call(self: Any, *args: Any, **kwargs: Any) -> Any:
        if self.value is record_function:
            return call_function(manager(theirs), *args, **kwargs)
        return call_function(self, *args, **kwargs)

    manager.call_function = call


def _teach_objects(builder: Any, variable: Any) -> None:
    """Support ranges that were made outside of the compiled code, by a decorator for instance."""
    wrap = builder.VariableBuilder._wrap

    def _wrap(self: Any, value: Any) -> Any:
        if type(value) is record_function:
            self.install_guards(builder.GuardBuilder.ID_MATCH)
            return variable(value)
        return wrap(self, value)

    builder.VariableBuilder._wrap = _wrap
