# Python imports this file before a program's first line, where `stepscope run` has put its folder
# first on PYTHONPATH. Afterwards the program finds everything as it would be without it: its own
# ``sitecustomize`` has run, or there is none. A docstring would be an attribute of that module.
import sys

_own_folder = __file__.rpartition("/")[0]
_file = _own_folder.rpartition("/")[0] + "/load.py"
with open(_file) as _load:
    exec(compile(_load.read(), _file, "exec"), {"__file__": _file})

sys.path[:] = [folder for folder in sys.path if folder != _own_folder]
sys.path_importer_cache.pop(_own_folder, None)
_spec = None
for _finder in sys.meta_path:
    _spec = _finder.find_spec("sitecustomize", None)
    if _spec is not None:
        break
if _spec is None or _spec.loader is None:
    raise ImportError("No module named 'sitecustomize'", name="sitecustomize")
sys.modules["sitecustomize"] = _module = type(sys)("sitecustomize")
_module.__spec__, _module.__loader__, _module.__file__ = _spec, _spec.loader, _spec.origin
_module.__package__ = ""
_spec.loader.exec_module(_module)
