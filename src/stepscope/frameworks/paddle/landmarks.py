"""The places in Paddle's code that show what a program is doing."""

from __future__ import annotations

from stepscope.analysis.base.landmarks import Landmarks

_TENSOR = "paddle/base/dygraph/tensor_patch_methods.py"
_LAYERS = "paddle/nn/layer/layers.py"

LANDMARKS = Landmarks(
    packages=frozenset({"paddle"}),
    with_operators=frozenset({"paddle"}),
    operator_suffixes=(" dygraph",),
    machinery=(
        *("paddle/nn/", "paddle/optimizer/", "paddle/io/", "paddle/autograd/", "paddle/tensor/"),
        *("paddle/base/", "paddle/utils/", "paddle/framework/"),
    ),
    layers=("paddle/nn/layer/",),
    module_calls=((_LAYERS, frozenset({"__call__"})),),
    module_leads=((_LAYERS, frozenset({"_dygraph_call_func"})),),
    loaders=("paddle/io/dataloader/dataloader_iter.py",),
    backward=(
        (_TENSOR, frozenset({"backward"})),
        ("paddle/autograd/backward_mode.py", frozenset({"backward"})),
    ),
    engine=("paddle/autograd/", "paddle/base/dygraph/"),
    optimizers=("paddle/optimizer/",),
    communication=("paddle/distributed/communication/",),
    compilers=("paddle/jit/dy2static/",),
    tensor_text=("paddle/tensor/to_string.py",),
    savers=(
        ("paddle/framework/io.py", frozenset({"save"})),
        ("paddle/hapi/model.py", frozenset({"save"})),
    ),
    saving_calls=frozenset({"paddle.save"}),
    tensors_from_lists=frozenset({"paddle.to_tensor"}),
    reading_functions=(
        (
            _TENSOR,
            frozenset({"item", "numpy", "tolist", "__float__", "__int__", "__bool__", "__str__"}),
        ),
    ),
    reads=frozenset({"item"}),
    reads_unseen=frozenset({"paddle"}),
    copies=frozenset({"cast", "assign", "contiguous", "clone", "copy_"}),
    joins=frozenset({"concat", "stack"}),
    graph_nodes=(" node_creation",),
)
