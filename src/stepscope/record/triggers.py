"""Which imports of the program switch on what is recorded of a framework, and how we see them.

It is read before the program's first line, so it imports nothing that Python has not.
"""

import _thread
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

PYTORCH, PADDLE, DEVICES, ANNOTATIONS = "torch", "paddle", "cuda", "annotations"
REQUESTS, EXTENSIONS = "requests", "extensions"
"""What ``frameworks`` can begin."""

# CUDA is set up when the first of its functions is called, which is after the import.
_USES_DEVICES = (
    *("cuda", "cupy", "jax", "numba.cuda", "onnxruntime", "pycuda.driver", "tensorflow"),
    *("triton", "warp"),
)
_SERVES = (
    *("socketserver", "http.server", "wsgiref.handlers"),
    *("flask", "django.core.handlers.base", "grpc._server"),
    *("aiohttp.web_protocol", "tornado.web"),
    *("uvicorn.protocols.http.h11_impl", "uvicorn.protocols.http.httptools_impl"),
    "hypercorn.asyncio.task_group",
)

CUDA_LIBRARY = "libcuda"
"""Triggered by ctypes, when it loads a library with one of the names ``OF_CUDA``."""

OF_CUDA = ("libcuda.so", "libcudart", "libcublas", "libcudnn", "libcufft", "libcusolver")

TRIGGERS = {
    CUDA_LIBRARY: (DEVICES,),
    "torch": (PYTORCH, DEVICES, ANNOTATIONS),
    "paddle": (PADDLE, DEVICES),
    "nvtx": (ANNOTATIONS,),
    **dict.fromkeys(_USES_DEVICES, (DEVICES,)),
    **dict.fromkeys(_SERVES, (REQUESTS,)),
}
"""By the name of a module, what begins once its code has run."""

BEGIN_DEVICES = tuple(name for name, kinds in TRIGGERS.items() if DEVICES in kinds)


class ImportWatch:
    """Calls back when the program has imported one of the modules in ``triggers``."""

    def __init__(
        self, native: "Any", triggers: "dict[str, Any]", imported: "Callable[[str], None]"
    ) -> None:
        self._native, self._triggers, self._imported = native, triggers, imported
        # Another release of Stepscope would not match the extension that is loaded.
        triggers["stepscope"] = None
        self._asking: set[int] = set()  # threads inside _spec_of
        namespace: Any = type(sys.implementation)
        self._finder = namespace(find_spec=native.import_finder(triggers, self._spec_of))
        sys.meta_path.insert(0, self._finder)

    def _spec_of(self, name: str, path: "Any", target: "Any") -> "Any":
        """Return the spec of a framework, with a loader that calls us when it is imported.

        Programs also look for a module without importing it, so this may be called again.
        """
        if name == "stepscope":
            return _spec_of_package()
        thread = _thread.get_ident()
        if thread in self._asking:  # another finder asks all finders, as we do
            return None
        self._asking.add(thread)
        try:
            spec = self._spec_of_others(name, path, target)
        finally:
            self._asking.discard(thread)
        if spec is not None and hasattr(spec.loader, "exec_module"):
            spec.loader = _Loader(self, name, spec.loader)
        return spec

    def _spec_of_others(self, name: str, path: "Any", target: "Any") -> "Any":
        for finder in list(sys.meta_path):
            find = getattr(finder, "find_spec", None)
            if find is not None and finder is not self._finder:
                spec = find(name, path, target)
                if spec is not None:
                    return spec
        return None

    def exec_module(self, name: str, loader: "Any") -> "Callable[[Any], None]":
        """Return what runs a framework's code; what the import system calls is native."""
        # Only the import of a framework is a range; a lock is a context without Python code.
        is_framework = self._triggers.get(name)
        scope = self._native.record_function(f"import {name}") if is_framework else _thread.RLock()
        execute: Callable[[Any], None] = self._native.importing(
            scope,
            loader,
            lambda module: self._executed(name, module, loader),
        )
        return execute

    def _executed(self, name: str, module: "Any", loader: "Any") -> None:
        """Tell of a framework whose code has run, and give the module its own loader back."""
        self._triggers.pop(name, None)
        for owner, attribute in ((module, "__loader__"), (module.__spec__, "loader")):
            if type(getattr(owner, attribute, None)) is _Loader:
                setattr(owner, attribute, loader)
        self._imported(name)


def _spec_of_package() -> "Any":
    external: Any = sys.modules["_frozen_importlib_external"]
    package = __file__.removesuffix("/record/triggers.py")
    return external.spec_from_file_location(
        "stepscope", f"{package}/__init__.py", submodule_search_locations=[package]
    )


class _Loader:
    """Wraps a loader to act after an import."""

    def __init__(self, watch: ImportWatch, name: str, loader: "Any") -> None:
        self._loader = loader
        self.create_module = loader.create_module
        self.exec_module = watch.exec_module(name, loader)

    def __getattr__(self, name: str) -> "Any":
        return getattr(self._loader, name)
