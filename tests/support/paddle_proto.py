"""Paddle's result file for ``google.protobuf``: the message classes, from a table of its fields."""

from __future__ import annotations

from typing import Any

import pytest

_TYPES = {
    "message": 11,
    "string": 9,
    "uint32": 13,
    "uint64": 4,
    "int64": 3,
    "float": 2,
    "enum": 14,
}

# A message's fields in the order of their numbers: the type, or the message behind a star for many.
_FIELDS = {
    "File": "version:string span_index:uint32 *thread_trees:Tree *extra_info:Extra *device:Device",
    "Tree": "thread_id:uint64 *host_nodes:Host",
    "Host": "id:int64 parentid:int64 event:HostEvent *runtime_nodes:Runtime *mem_nodes:Memory"
    " *supplements:Supplement",
    "HostEvent": "name:string type:enum start_ns:uint64 end_ns:uint64 process_id:uint64"
    " thread_id:uint64",
    "Runtime": "event:RuntimeEvent *device_nodes:Work",
    "RuntimeEvent": "name:string start_ns:uint64 end_ns:uint64 process_id:uint64 thread_id:uint64"
    " correlation_id:uint32 callback_id:uint32",
    "Work": "event:WorkEvent",
    "WorkEvent": "name:string type:enum start_ns:uint64 end_ns:uint64 device_id:uint64"
    " context_id:uint64 stream_id:uint64 correlation_id:uint32 ?kernel:Kernel ?memcpy:Memcpy"
    " ?memset:Memset",
    "Kernel": "block_x:uint32 block_y:uint32 block_z:uint32 grid_x:uint32 grid_y:uint32"
    " grid_z:uint32 dynamic:uint32 static:uint32 registers:uint32 local:uint32 local_total:uint32"
    " queued:uint64 submitted:uint64 completed:uint64 blocks_per_sm:float warps_per_sm:float"
    " occupancy:float",
    "Memcpy": "num_bytes:uint64 copy_kind:string src_kind:string dst_kind:string",
    "Memset": "num_bytes:uint64 memory_kind:string value:uint32",
    "Memory": "event:MemoryEvent",
    "MemoryEvent": "timestamp_ns:uint64 type:uint32 addr:uint64 process_id:uint64 thread_id:uint64"
    " increase_bytes:int64 place:string current_allocated:uint64 current_reserved:uint64"
    " peak_allocated:uint64 peak_reserved:uint64",
    "Supplement": "event:SupplementEvent",
    "SupplementEvent": "timestamp_ns:uint64 op_type:string process_id:uint64 thread_id:uint64"
    " input_shapes:Shapes dtypes:Dtypes callstack:string op_id:uint64",
    "Shapes": "*key:string *lists:ShapeList",
    "ShapeList": "*shapes:Shape",
    "Shape": "*size:uint64",
    "Dtypes": "*key:string *lists:DtypeList",
    "DtypeList": "*dtype:string",
    "Extra": "key:string value:string",
    "Device": "id:uint32 name:string total_global_memory:uint64 compute_major:uint32"
    " compute_minor:uint32 max_threads_per_block:uint32 max_threads_per_multiprocessor:uint32"
    " regs_per_block:uint32 regs_per_multiprocessor:uint32 warp_size:uint32"
    " shared_memory_per_block:uint64 shared_memory_per_multiprocessor:uint64 sm_count:uint32"
    " shared_memory_per_block_optin:uint64",
}
_LABELS = {"*": 3, "?": 1}
_REQUIRED = 2
KNOWN_TYPES = 15  # how many event types Paddle's own reader knows


def file_class(event_types: int = KNOWN_TYPES) -> Any:
    """Return the class of the file's message; skips the test without protobuf."""
    pytest.importorskip("google.protobuf")
    from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

    schema = descriptor_pb2.FileDescriptorProto(
        name="paddle_result.proto", package="result", syntax="proto2"
    )
    kinds = schema.enum_type.add(name="EventType")
    for number in range(event_types):
        kinds.value.add(name=f"TYPE_{number}", number=number)
    for name, fields in _FIELDS.items():
        message = schema.message_type.add(name=name)
        for number, words in enumerate(fields.split(), 1):
            label = _LABELS.get(words[0], _REQUIRED)
            field_name, kind = words.lstrip("*?").split(":")
            field = message.field.add(name=field_name, number=number, label=label)
            field.type = _TYPES.get(kind, _TYPES["message"])
            if kind == "enum":
                field.type_name = ".result.EventType"
            elif kind in _FIELDS:
                field.type_name = f".result.{kind}"
    pool = descriptor_pool.DescriptorPool()
    pool.Add(schema)
    return message_factory.GetMessageClass(pool.FindMessageTypeByName("result.File"))
