"""The names of remedies in PyTorch."""

from __future__ import annotations

from stepscope.analysis.base.remedies import Advice, Remedy

ADVICE = Advice(
    "torch",
    {
        Remedy.COMPILER: "torch.compile",
        Remedy.FEWER_LAUNCHES: ', torch.compile(mode="reduce-overhead") or ',
        Remedy.FUSED_ATTENTION: "Use torch.nn.functional.scaled_dot_product_attention: one kernel, "
        "and no matrix of scores in memory.",
        Remedy.NO_GRAPH: "Put the call under `with torch.inference_mode():` (or torch.no_grad()), "
        "and call model.eval() first.",
        Remedy.NO_GRADIENTS: "Call it under `with torch.no_grad():`, or set requires_grad_(False) "
        "on its parameters.",
        Remedy.FLOAT32: "torch.float32",
        Remedy.WHOLE_ARRAYS: "Keep the data as one NumPy array or tensor from the start, and use "
        "torch.from_numpy, which copies nothing, or torch.stack for a list of tensors.",
        Remedy.BUCKETS: "smaller gradient buckets (bucket_cap_mb), ",
        Remedy.BACKGROUND: "a thread, a DataLoader's worker",
        Remedy.LOADER: "DataLoader(..., ",
        Remedy.PINNED_MEMORY: "pin_memory",
        Remedy.LESS_KEPT: "a list of tensors, a loss with its graph (use .detach() or .item()), a "
        "cache without a limit",
        Remedy.CHECKPOINTS: "torch.utils.checkpoint around the layers computes them again instead.",
        Remedy.FREED_GRADIENTS: "call zero_grad(set_to_none=True), the default since PyTorch 2.0, "
        "before the forward pass.",
        Remedy.SMALLER_WORKSPACE: "torch.backends.cudnn.benchmark = False picks algorithms that "
        "need less.",
        Remedy.LESS_UNUSED: "PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True makes it usable; so "
        "do sizes that do not change from step to step.",
    },
    is_assumed=True,
)

TRAINER = Advice(
    "torch",
    {
        Remedy.LOADER: "TrainingArguments(..., ",
        Remedy.LOADER_PREFIX: "dataloader_",
        Remedy.PINNED_MEMORY: "",  # it does by default
    },
    loop_in="transformers/trainer",
)
