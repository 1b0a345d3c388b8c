"""Begins to record, before the program's first line.

Python runs this from ``stepscope.pth``, where the package is installed, and else from
``start/sitecustomize.py``. It loads the recorder by its path: the packages that it lies in would
bring modules that the program lacks.
"""

import sys


def _begin() -> None:
    import _frozen_importlib_external

    name = "stepscope.record.inside.boot"
    if name not in sys.modules:
        path = __file__.rpartition("/")[0] + "/boot.py"
        module = type(sys)(name)
        module.__file__ = path
        sys.modules[name] = module
        _frozen_importlib_external.SourceFileLoader(name, path).exec_module(module)
    sys.modules[name].begin()


try:  # noqa: SIM105 - contextlib is another module
    _begin()
except Exception:  # the program runs all the same, and the answer says that nothing was recorded
    pass
