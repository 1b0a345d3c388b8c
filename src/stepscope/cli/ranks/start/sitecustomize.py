"""Runs before the first line of a Python program that a recorded program has started.

It waits for the import of a framework: before that, the program costs nothing and is not changed.
The ``sitecustomize`` that Python would have found without us runs, too.
"""

import os
import sys
from importlib.abc import MetaPathFinder
from importlib.machinery import PathFinder

_FRAMEWORKS = frozenset({"torch", "paddle", "mpi4py", "horovod", "jax"})
_HERE = os.path.dirname(os.path.abspath(__file__))  # noqa: PTH100, PTH120 - nothing is imported


class _Joining(MetaPathFinder):
    """Joins the job when the program is about to import a framework."""

    def find_spec(self, fullname: str, path: object, target: object = None) -> None:
        """Find nothing; the next finder does."""
        if fullname in _FRAMEWORKS:
            sys.meta_path.remove(self)
            _join()


def _join() -> None:
    import json

    text = os.environ.get("STEPSCOPE_JOB", "")
    told = json.loads(text)
    if told["python"] != sys.version.partition(" ")[0]:
        return
    sys.path.append(told["package"])  # where the parent has us from
    try:
        from stepscope.cli.ranks.by_environment import join_by_environment
    except ImportError:
        return
    finally:
        sys.path.remove(told["package"])
    join_by_environment(text)


def _run_theirs() -> None:
    """Run the one that we stand in front of."""
    sys.path[:] = [each for each in sys.path if os.path.abspath(each) != _HERE]  # noqa: PTH100
    spec = PathFinder.find_spec("sitecustomize")
    if spec is not None and spec.loader is not None:
        from importlib.util import module_from_spec

        module = module_from_spec(spec)
        sys.modules["sitecustomize"] = module
        spec.loader.exec_module(module)


if os.environ.get("STEPSCOPE_JOB"):
    sys.meta_path.insert(0, _Joining())
_run_theirs()
