"""The places in the code of other libraries (JAX, trainers, loggers) that show a program's work."""

from __future__ import annotations

from stepscope.analysis.base.landmarks import Landmarks

_NUMPY_SAVERS = frozenset({"save", "savez", "savez_compressed"})

LANDMARKS = Landmarks(
    packages=frozenset(
        {
            *("jax", "jaxlib", "flax", "optax", "triton", "tensorflow", "keras", "mlx", "cupy"),
            *("lightning", "pytorch_lightning", "lightning_fabric", "accelerate", "deepspeed"),
            *("transformers", "timm", "diffusers", "peft", "trl", "torchmetrics"),
            *("einops", "xformers", "flash_attn"),
        }
    ),
    children=(
        ("multiprocessing/process.py", frozenset({"join"})),
        ("multiprocessing/popen_fork.py", frozenset({"wait", "poll"})),
    ),
    compilers=(
        *("jax/_src/compiler.py", "jax/_src/interpreters/mlir.py"),
        "jax/_src/interpreters/partial_eval.py",
    ),
    loggers=(
        *("logging/", "tensorboard/", "tensorboardX/", "wandb/", "mlflow/", "loguru/"),
        *("tqdm/", "rich/"),
    ),
    savers=(
        ("safetensors/torch.py", frozenset({"save_file", "save_model", "save"})),
        ("safetensors/numpy.py", frozenset({"save_file"})),
        ("joblib/numpy_pickle.py", frozenset({"dump"})),
        ("numpy/lib/npyio.py", _NUMPY_SAVERS),
        ("numpy/lib/_npyio_impl.py", _NUMPY_SAVERS),
    ),
    saving_calls=frozenset({"pickle.dump", "np.save", "np.savez"}),
)
