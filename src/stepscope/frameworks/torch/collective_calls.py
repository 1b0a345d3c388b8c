"""What the arguments of a process group's methods say of a collective."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from stepscope.record.collective_notes import note_tensors

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from stepscope.record.collectives import Collective

# Which of the first two arguments are the output and the input; None: both are one, or none is.
_SAME: tuple[int | None, int | None] = (0, 0)
_OUT_IN: tuple[int | None, int | None] = (0, 1)
METHODS: Mapping[str, tuple[int | None, int | None]] = {
    **dict.fromkeys(("allreduce", "allreduce_coalesced", "broadcast", "reduce"), _SAME),
    **dict.fromkeys(("allgather", "_allgather_base", "allgather_coalesced"), _OUT_IN),
    **dict.fromkeys(("reduce_scatter", "_reduce_scatter_base"), _OUT_IN),
    "allgather_into_tensor_coalesced": _OUT_IN,
    "reduce_scatter_tensor_coalesced": _OUT_IN,
    **dict.fromkeys(("all_gather_single", "all_gather_single_coalesced"), _OUT_IN),
    **dict.fromkeys(("reduce_scatter_single", "reduce_scatter_single_coalesced"), _OUT_IN),
    **dict.fromkeys(("alltoall", "alltoall_base", "all_to_all_single"), _OUT_IN),
    **dict.fromkeys(("gather", "scatter"), _OUT_IN),
    "send": (None, 0),
    "recv": (0, None),
    "recv_anysource": (0, None),
    "barrier": (None, None),
}  # fmt: skip
_ROOT_IS_SOURCE = {"broadcast": True, "scatter": True, "reduce": False, "gather": False}


def noted(note: Collective, group: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> None:
    """Write into a note what a call that has returned was about."""
    note.group = str(group.group_name)
    if not note.is_point_to_point:
        note.number = int(group._get_sequence_number_for_group()) or None
    out, taken = METHODS[note.name]
    note_tensors(note, args, out, taken)
    options = kwargs.get("opts", args[-1] if args else None)
    is_async = getattr(options, "asyncOp", None)
    note.is_async = is_async if isinstance(is_async, bool) else None
    _note_ends(note, group, args, options)


def _note_ends(note: Collective, group: Any, args: Sequence[Any], options: Any) -> None:
    """Note the ranks that send and receive, in the numbers of the whole job."""
    if note.is_point_to_point:
        mine, other = group.rank(), args[1] if len(args) > 1 else None
        peer = other if isinstance(other, int) and note.name != "recv_anysource" else None
        ends = (mine, peer) if note.name == "send" else (peer, mine)
        note.source, note.destination = (_global_rank(group, each) for each in ends)
    elif note.name in _ROOT_IS_SOURCE:
        root = getattr(options, "rootRank", None)
        if isinstance(root, int):
            end = _global_rank(group, root)
            if _ROOT_IS_SOURCE[note.name]:
                note.source = end
            else:
                note.destination = end


def _global_rank(group: Any, rank: int | None) -> int | None:
    import torch.distributed as dist

    return None if rank is None else int(dist.get_global_rank(group, rank))
