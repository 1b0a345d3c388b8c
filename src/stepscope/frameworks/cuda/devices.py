"""Describes the CUDA devices of this machine, and how well a launch fills them."""

from __future__ import annotations

import ctypes
import os
from typing import TYPE_CHECKING, Any

from stepscope.frameworks.cuda.nvml import visible_devices

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

_DRIVER = "libcuda.so.1"  # every program that uses a device has loaded it

# Kineto's name of each attribute, and the driver's number.
_ATTRIBUTES = {
    "computeMajor": 75,
    "computeMinor": 76,
    "maxThreadsPerBlock": 1,
    "maxThreadsPerMultiprocessor": 39,
    "regsPerBlock": 12,
    "warpSize": 10,
    "sharedMemPerBlock": 8,
    "numSms": 16,
    "regsPerMultiprocessor": 82,
    "sharedMemPerBlockOptin": 97,
    "sharedMemPerMultiprocessor": 81,
    "maxBlocksPerMultiprocessor": 106,
    "reservedSharedMemPerBlock": 111,
}
_COUNTED = (
    *("numSms", "warpSize", "maxThreadsPerMultiprocessor"),
    *("regsPerMultiprocessor", "sharedMemPerMultiprocessor"),
)
_REGISTERS_AT_ONCE = 256  # registers are allocated to a warp in such units
_SHARED_MEMORY_AT_ONCE = 128  # bytes, the unit of its allocation


def cuda_devices() -> list[dict[str, Any]]:
    """Describe the devices of a program that has used CUDA; an empty list before that."""
    driver, count = _driver_and_count()
    return [_described(driver, number) for number in range(count)]


def _driver_and_count() -> tuple[Any, int]:
    """Return the driver and the number of devices; 0 if the program has not used CUDA."""
    try:
        driver = ctypes.CDLL(_DRIVER, mode=os.RTLD_NOW | os.RTLD_NOLOAD)
    except OSError:
        return None, 0
    count = ctypes.c_int()
    is_initialised = driver.cuDeviceGetCount(ctypes.byref(count)) == 0
    return driver, count.value if is_initialised else 0


def _described(driver: ctypes.CDLL, number: int) -> dict[str, Any]:
    device, name, memory = ctypes.c_int(), ctypes.create_string_buffer(256), ctypes.c_size_t()
    driver.cuDeviceGet(ctypes.byref(device), number)
    driver.cuDeviceGetName(name, len(name), device)
    driver.cuDeviceTotalMem_v2(ctypes.byref(memory), device)
    description: dict[str, Any] = {
        "id": number,
        "name": name.value.decode("utf-8", "replace"),
        "totalGlobalMem": memory.value,
    }
    for key, attribute in _ATTRIBUTES.items():
        value = ctypes.c_int()
        if driver.cuDeviceGetAttribute(ctypes.byref(value), attribute, device) == 0:
            description[key] = value.value
    return description


def well_formed_devices(devices: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """Return the devices whose description has the form that ``cuda_devices`` gives it."""
    return [
        device
        for device in devices
        if all(
            type(device.get(key, 1)) is int and 0 <= device.get(key, 1) < 1 << 31
            for key in _ATTRIBUTES
        )
        and all(device.get(key) for key in _COUNTED)
    ]


def occupancy_fragment(shape: list[int], device: Mapping[str, Any] | None) -> str:
    """Return how a launch occupies the device, as the inside of a JSON object.

    ``shape`` is the grid, the block, the registers of a thread and the bytes of shared memory.
    """
    if not device or not device.get("numSms"):
        return ""
    blocks = shape[0] * shape[1] * shape[2]
    threads = shape[3] * shape[4] * shape[5]
    warps = -(-threads // device["warpSize"])
    most_warps = device["maxThreadsPerMultiprocessor"] // device["warpSize"]
    if warps < 1 or most_warps < 1:
        return ""
    blocks_per_sm = blocks / device["numSms"]
    resident = min(_resident_blocks(warps, shape[6], shape[7], device), blocks_per_sm)
    occupancy = min(100, round(100 * resident * warps / most_warps))
    return (
        f', "blocks per SM": {blocks_per_sm:.6g}, "warps per SM": {blocks_per_sm * warps:.6g}'
        f', "est. achieved occupancy %": {occupancy}'
    )


def _resident_blocks(warps: int, registers: int, shared: int, device: Mapping[str, Any]) -> int:
    most_warps = device["maxThreadsPerMultiprocessor"] // device["warpSize"]
    limits: list[int] = [most_warps // warps, device.get("maxBlocksPerMultiprocessor", 32)]
    if registers:
        of_warp = -(-registers * device["warpSize"] // _REGISTERS_AT_ONCE) * _REGISTERS_AT_ONCE
        limits.append(device["regsPerMultiprocessor"] // of_warp // warps)
    taken = shared + device.get("reservedSharedMemPerBlock", 0)
    taken = -(-taken // _SHARED_MEMORY_AT_ONCE) * _SHARED_MEMORY_AT_ONCE
    if taken:
        limits.append(device["sharedMemPerMultiprocessor"] // taken)
    return min(limits)


_PCI_PLACE = (50, 33, 34)  # the driver's numbers of these attributes: domain, bus, device


def devices_in_use() -> dict[tuple[int, int, int], int]:
    """Return the CUDA number of each device that this process computes on, by its place on the bus.

    The result is empty before the program has used CUDA; merely visible devices do not count.
    """
    driver, count = _driver_and_count()
    numbers = {}
    for number in range(count):
        device, flags, is_active = ctypes.c_int(), ctypes.c_uint(), ctypes.c_int()
        driver.cuDeviceGet(ctypes.byref(device), number)
        failed = driver.cuDevicePrimaryCtxGetState(
            device, ctypes.byref(flags), ctypes.byref(is_active)
        )
        if failed == 0 and is_active.value:
            numbers[_pci_place(driver, device)] = number
    return numbers


def with_cuda_numbers(devices: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Add CUDA's number to NVML's devices: None for those that the program does not use.

    If the use is unknown, all devices that the program may use get a number.
    """
    used = devices_in_use()
    if any(device["pci"] in used for device in devices):
        return [{**device, "cuda": used.get(device["pci"])} for device in devices]
    visible = visible_devices() or [device["number"] for device in devices]
    return [{**device, "cuda": visible.index(device["number"])} for device in devices]


def _pci_place(driver: ctypes.CDLL, device: ctypes.c_int) -> tuple[int, int, int]:
    values = []
    for attribute in _PCI_PLACE:
        value = ctypes.c_int()
        driver.cuDeviceGetAttribute(ctypes.byref(value), attribute, device)
        values.append(value.value)
    return values[0], values[1], values[2]
