"""The names of remedies in Paddle."""

from __future__ import annotations

from stepscope.analysis.base.remedies import Advice, Remedy

ADVICE = Advice(
    "paddle",
    {
        Remedy.NO_GRAPH: "Put the call under `with paddle.no_grad():`, and call model.eval() "
        "first.",
        Remedy.NO_GRADIENTS: "Call it under `with paddle.no_grad():`, or set stop_gradient on its "
        "parameters.",
        Remedy.BACKGROUND: "a thread, a DataLoader's worker",
        Remedy.LOADER: "DataLoader(..., ",
        Remedy.LESS_KEPT: "a list of tensors, a loss with its graph (use .detach() or .item()), a "
        "cache without a limit",
        Remedy.FLOAT32: "paddle.float32",
        Remedy.WHOLE_ARRAYS: "Keep the data as one NumPy array from the start and convert that.",
        Remedy.CHECKPOINTS: "paddle.distributed.fleet.utils.recompute computes them again instead.",
        Remedy.FREED_GRADIENTS: "call clear_grad(set_to_zero=False) before the forward pass.",
        Remedy.SMALLER_WORKSPACE: "a smaller FLAGS_conv_workspace_size_limit makes them do with "
        "less.",
        Remedy.LESS_UNUSED: "FLAGS_allocator_strategy=auto_growth takes less in advance; so do "
        "sizes that do not change from step to step.",
    },
)
