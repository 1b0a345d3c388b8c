"""Keys of the events' arguments, as in torch.profiler's files where those have them."""

from __future__ import annotations

EXTERNAL_ID = "External id"  # ties device work to the operator that launched it
SEQUENCE_NUMBER = "Sequence number"
FORWARD_THREAD = "Fwd thread id"
EVENT_INDEX = "Ev Idx"
RECORD_FUNCTION_ID = "Record function id"
CALL_STACK = "Call stack"
MODULE_HIERARCHY = "Module Hierarchy"
BYTES = "bytes"
STATED_PART = "Event type"  # what part of a step a range says it is: forward, optimizer, ...
CAPTURED_NODE = "captured node"  # ties work of a CUDA graph to the event that put it there

# An operator's inputs, each a list.
INPUT_DIMS = "Input Dims"
INPUT_TYPES = "Input type"
INPUT_STRIDES = "Input Strides"
INPUT_NAMES = "Input names"
CONCRETE_INPUTS = "Concrete Inputs"
SAMPLED_DIMS = "Sampled dims"  # of the few operators that were drawn
SAMPLED_TYPES = "Sampled types"

# Of a module's call.
PARAMETERS = "Parameters"
OWN_PARAMETERS = "Own parameters"
MODEL_ID = "Model id"  # tells models of one class apart

# Of a collective.
COLLECTIVE = "Collective name"
GROUP_NAME = "Process Group Name"
GROUP_DESCRIPTION = "Process Group Description"
GROUP_RANKS = "Process Group Ranks"
GROUP_SIZE = "Group size"
RANK = "Rank"
NUMBER = "Seq"  # of the collective in its group
SOURCE_RANK = "Src Rank"
DESTINATION_RANK = "Dst Rank"
IN_ELEMENTS = "In msg nelems"
OUT_ELEMENTS = "Out msg nelems"
DTYPE = "dtype"
IS_ASYNC = "Is asynchronized op"
MODULE = "Module"


def stated_fragment(word: str) -> str:
    """Return the argument that states a part, as the inside of a JSON object."""
    return f'"{STATED_PART}": "{word}"'
