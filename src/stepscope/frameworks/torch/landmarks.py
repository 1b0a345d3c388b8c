"""The places in PyTorch's code that show what a program is doing."""

from __future__ import annotations

from stepscope.analysis.base.landmarks import Landmarks

_MODULE = "torch/nn/modules/module.py"
_AUTOGRAD = "torch/autograd/"
_SIZED_BY_VALUES = frozenset(
    f"aten::{name}"
    for name in ("nonzero", "masked_select", "_unique2", "unique_dim", "unique_consecutive")
)


def _named(*names: str) -> frozenset[str]:
    return frozenset(f"aten::{name}" for name in names)


LANDMARKS = Landmarks(
    packages=frozenset({"torch", "functorch", "torchgen", "torchvision", "torchaudio"}),
    with_operators=frozenset({"torch"}),
    operator_prefixes=("aten::", "torchvision::"),
    fused_kernels=("triton_poi_", "triton_per_", "triton_red_"),
    machinery=(
        *("torch/nn/", "torch/optim/", _AUTOGRAD, "torch/utils/data/", "torch/_dynamo/"),
        *("torch/_tensor.py", "torch/functional.py", "torch/_ops.py", "torch/utils/_contextlib.py"),
    ),
    layers=("torch/nn/modules/",),
    module_calls=((_MODULE, frozenset({"_call_impl"})),),
    module_leads=((_MODULE, frozenset({"_wrapped_call_impl", "inner"})),),
    loaders=("torch/utils/data/dataloader.py",),
    backward=(
        (f"{_AUTOGRAD}__init__.py", frozenset({"backward", "grad"})),
        (f"{_AUTOGRAD}graph.py", frozenset({"_engine_run_backward"})),
        ("torch/_tensor.py", frozenset({"backward"})),
    ),
    engine=(_AUTOGRAD, "torch/_tensor.py"),
    optimizers=("torch/optim/",),
    communication=("torch/distributed/distributed_c10d.py",),
    children=(
        ("torch/multiprocessing/spawn.py", frozenset({"join", "start_processes", "spawn"})),
        ("torch/distributed/elastic/agent/server/api.py", frozenset({"_invoke_run", "run"})),
    ),
    first_uses=(("torch/cuda/__init__.py", frozenset({"_lazy_init"})),),
    compilers=("torch/_dynamo/convert_frame.py", "torch/_inductor/"),
    loggers=("torch/utils/tensorboard/",),
    tensor_text=("torch/_tensor_str.py",),
    savers=(
        ("torch/serialization.py", frozenset({"save", "_save", "_legacy_save"})),
        (
            "torch/distributed/checkpoint/state_dict_saver.py",
            frozenset({"save", "async_save"}),
        ),
    ),
    saving_calls=frozenset({"torch.save"}),
    tensors_from_lists=frozenset(
        f"torch.{name}"
        for name in (
            *("tensor", "as_tensor", "asarray", "Tensor"),
            *("FloatTensor", "DoubleTensor", "LongTensor"),
        )
    ),
    reads=frozenset({"aten::item", "aten::_local_scalar_dense", "aten::is_nonzero", "aten::equal"}),
    copies=frozenset(
        f"aten::{name}"
        for name in ("copy_", "to", "_to_copy", "clone", "contiguous", "type_as", "_to_cpu")
    ),
    gathers=_named("index", "index_select", "gather", "embedding", "take", "masked_select"),
    row_by_row=_named(
        *("mm", "addmm", "bmm", "baddbmm", "linear", "mkldnn_linear", "_addmm_activation"),
        *("add", "sub", "mul", "div", "neg", "exp", "log", "tanh", "sigmoid", "relu", "gelu"),
        *("silu", "pow", "sqrt", "rsqrt", "clamp", "clamp_min", "where", "masked_fill"),
        *("_softmax", "_log_softmax", "softmax", "log_softmax", "native_layer_norm", "_to_copy"),
        *("clone", "leaky_relu", "hardtanh", "elu", "softplus", "_mkldnn_linear"),
    ),
    sorts=_named("sort", "argsort", "msort"),
    dense_gradients=_named("embedding_dense_backward"),
    recomputing=("torch/utils/checkpoint.py",),
    joins=frozenset({"aten::cat", "aten::stack", "aten::hstack", "aten::vstack"}),
    allocations=("aten::empty", "aten::new_empty", "aten::resize_"),
    fills=frozenset({"aten::zero_", "aten::_foreach_zero_"}),
    sized_by_values=_SIZED_BY_VALUES,
    waits=_SIZED_BY_VALUES | {"aten::_local_scalar_dense", "aten::equal"},
    hidden=frozenset(
        {
            *("[OutOfMemory]", "[memory]", "aten::_version", "aten::is_leaf", "aten::output_nr"),
            *(f"profiler::_record_function_{what}" for what in ("enter", "enter_new", "exit")),
        }
    ),
    unseen_frames=(
        ("autograd/__init__", "_make_grads"),
        ("autograd/__init__", "backward"),
        ("torch/tensor", "backward"),
        ("_internal/common_utils", "prof_callable"),
        ("_internal/common_utils", "prof_func_call"),
        ("_internal/common_utils", "prof_meth_call"),
    ),
    generated=((r"torchinductor_|/[a-z0-9]{2}/c[a-z0-9]{40,}\.py$", "torch"),),
)
