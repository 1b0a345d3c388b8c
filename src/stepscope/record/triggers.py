"""Which imports of the program switch on what is recorded of a framework.

It is read before the program's first line, so it imports nothing.
"""

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
