"""Records CUDA kernels, copies, fills and the calls that launched them through CUPTI."""

from __future__ import annotations

import os
import sys
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar

from stepscope import _native
from stepscope.frameworks.cuda.cupti import OVERRIDE, cupti_paths, has_driver
from stepscope.frameworks.cuda.options import DEVICE_RECORDS, bits_of, wanted_records
from stepscope.notices import notify
from stepscope.record.limits import native_limit
from stepscope.record.options import DEVICE, INSIDE
from stepscope.record.source import Source, Stage
from stepscope.record.stream.notes import SOURCES

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from stepscope.record.limits import MemoryLimit
    from stepscope.record.options import RecordOptions
    from stepscope.record.stream.left_behind import LeftBehind
    from stepscope.trace.schema import Captured
    from stepscope.trace.table import Int64


_loaded: str | None = None  # CUPTI's name and version, once it is in use
_path = ""  # the path of the loaded CUPTI


def watch_captures() -> bool:
    """Note the nodes of the graphs that are captured from now on; CUPTI must be loaded.

    CUPTI has room for one listener: ``leave_captures`` must follow.
    """
    try:
        _native.watch_graphs()
    except RuntimeError:  # another tool listens: we see no nodes of graphs
        return False
    return True


def leave_captures() -> None:
    _native.leave_graphs()


class CuptiUnavailableError(Exception):
    """No usable CUPTI was found."""


def cuda_available() -> bool:
    if not has_driver() or os.environ.get(OVERRIDE) == "off":
        return False
    try:
        load_cupti()
    except CuptiUnavailableError:
        return False
    return True


def load_cupti() -> str:
    global _loaded, _path
    if _loaded is None:
        tried = []
        for path in cupti_paths():
            try:
                version = _native.load_cupti(str(path))
            except RuntimeError as error:
                tried.append(f"{path}: {error}")
                continue
            os.register_at_fork(after_in_child=_native.forget_cuda_after_fork)
            _loaded, _path = f"CUPTI {version} ({path.name})", str(path)
            break
        else:
            raise CuptiUnavailableError("; ".join(tried) or "no libcupti.so was found")
    return _loaded


def cupti_path() -> str:
    load_cupti()
    return _path


class CudaActivity(Source):
    """Records what devices do and the calls that launched it; does nothing without a driver."""

    name = "cuda"
    stage = Stage.DEVICE
    when = DEVICE
    used_by: ClassVar[int] = 0  # the process, this one or an ancestor, in which CUPTI has recorded
    recording: ClassVar[int] = 0  # the number of instances that record now

    def __init__(
        self,
        limit: MemoryLimit | None = None,
        records: Sequence[str] = (),
        *,
        is_inside: bool = False,
    ) -> None:
        self._limit = limit
        self._records = tuple(records)
        self._is_inside = is_inside
        self._description = ""
        self._since: int | None = None
        self._lost_before = 0  # events lost before the current start
        self._since_ns = 0
        self._watches = False
        self._pid = 0
        self._columns: dict[str, Any] | None = None
        self.devices: list[dict[str, Any]] = []

    @classmethod
    def made_for(cls, options: RecordOptions, limit: MemoryLimit | None) -> Source:
        return cls(limit, options[DEVICE_RECORDS], is_inside=options[INSIDE])

    def prepare(self) -> None:
        if self._description or not has_driver() or os.environ.get(OVERRIDE) == "off":
            return
        try:
            self._description = load_cupti()
        except CuptiUnavailableError as error:
            self._description = f"the device is not recorded: {error}"
            notify(
                f"{self._description}; install nvidia-cuda-cupti or name a library in {OVERRIDE}"
            )

    def start(self) -> None:
        self.prepare()
        self._lost_before = self.lost
        if _loaded is None:
            return
        other_user = obstacle()
        if other_user and not _may_share():
            notify(f"the device is not recorded: {other_user}")
            return
        limit = native_limit(self._limit)
        seconds = self._limit.seconds if self._limit else 0.0
        self._watches = not other_user and watch_captures()
        self._since_ns = _native.now_ns()
        try:
            self._since = _native.start_cuda(
                limit["limit_bytes"],
                limit["keep_newest"],
                seconds,
                bits_of(self._records),
                beside=bool(other_user),
            )
        except RuntimeError as error:
            why = f"{other_user}, and {error}" if other_user else str(error)
            notify(f"the device is not recorded: {why}")
        else:
            CudaActivity.recording += 1
            _native.note_value_in_stream(self.name, {"records": self._records})
        self._pid = CudaActivity.used_by = os.getpid()

    def stop(self) -> None:
        """Wait for the device and take its records; a forked child leaves the device alone."""
        since, self._since = self._since, None
        if self._pid != os.getpid():
            return
        if self._watches:
            self._watches = False
            leave_captures()
        if since is not None:
            CudaActivity.recording -= 1
            if self._is_inside:
                self.lost = self._lost_before + _native.end_cuda(since)
            else:
                self._columns = _native.stop_cuda(since)

    def collect(self) -> Captured | None:
        return self.hand_over()()

    def hand_over(self) -> Callable[[], Captured | None]:
        columns, self._columns = self._columns, None
        return partial(self._captured, columns, self._since_ns)

    def so_far(self) -> Captured | None:
        """Wait for the device and return its records so far; the recording continues."""
        since = self._since
        if since is None or self._pid != os.getpid():
            return None
        # Counts as one more user, so that stop_cuda() leaves the recording on; it keeps its limit.
        _native.start_cuda(0, True, 0.0)
        return self._captured(_native.stop_cuda(since), self._since_ns)

    def _captured(self, columns: dict[str, Any] | None, since_ns: int) -> Captured | None:
        if columns is None:
            return None
        self.lost = self._lost_before + columns["lost"]
        if len(columns["kind"]):
            self._find_devices()
        return _captured(columns, self.devices, self._records, _native.graph_nodes, since_ns)

    @classmethod
    def recover(cls, remains: LeftBehind) -> Captured | None:
        from stepscope.frameworks.cuda.devices import well_formed_devices

        columns = remains.native.device()
        if not len(columns["kind"]):
            return None
        devices = well_formed_devices(remains.meta.get(SOURCES, {}).get("devices", ()))
        try:
            records = wanted_records(remains.meta.get(cls.name, {}).get("records"))
        except ValueError:
            records = ()
        since_ns = remains.facts["start_ns"]
        return _captured(columns, devices, records, remains.native.graph_nodes, since_ns)

    def _find_devices(self) -> None:
        if not self.devices:
            from stepscope.frameworks.cuda.devices import cuda_devices

            self.devices = cuda_devices()

    def describe(self) -> str:
        return self._description

    def describe_running(self) -> str:
        if _loaded is not None:
            self._find_devices()
        return self.describe()


def _captured(
    columns: dict[str, Any],
    devices: Sequence[Mapping[str, Any]],
    records: Sequence[str],
    find_nodes: Callable[[Int64], dict[str, Any]],
    since_ns: int,
) -> Captured:
    from stepscope.frameworks.cuda.cupti_columns import work_captured
    from stepscope.frameworks.cuda.extras import extras_captured, split
    from stepscope.frameworks.cuda.graphs import captured_nodes, nodes_of
    from stepscope.trace.join import merge_parts

    work, others = split(columns)
    nodes = nodes_of(work, find_nodes)
    parts = [work_captured(work, devices, nodes)]
    if nodes is not None:
        parts.append(captured_nodes(nodes, since_ns))
    if records and (more := extras_captured(others, work, records)) is not None:
        parts.append(more)
    return merge_parts(parts)


def obstacle() -> str:
    if CudaActivity.used_by not in (0, os.getpid()):
        return "CUPTI does not survive a fork; start this process with spawn"
    if CudaActivity.recording:  # we are the user of CUPTI
        return ""
    other = _other_user()
    return f"{other} is using CUPTI" if other else ""


def _may_share() -> bool:
    """Tell whether to try recording while another tool uses CUPTI; CUPTI and that tool may refuse.

    This takes CUPTI's functions for several subscribers (CUDA 13.3). torch's own collector uses the
    older functions, which fail once several subscribers are allowed, and must not be broken.
    """
    if CudaActivity.used_by not in (0, os.getpid()):
        return False
    return "cupti" in sys.modules or not _torch_records()


def _torch_records() -> bool:
    torch = sys.modules.get("torch")
    # The public name also reports our own recordings.
    return torch is not None and bool(torch._C._autograd._profiler_enabled())


def _other_user() -> str:
    if _torch_records():
        return "torch.profiler"
    injected = os.environ.get("CUDA_INJECTION64_PATH") or os.environ.get(
        "NSYS_PROFILING_SESSION_ID"
    )
    return "a tool that was injected into this process (Nsight?)" if injected else ""


class AskedRecords(Source):
    """Warns if such records are asked for and no device is recorded.

    ``CudaActivity`` records them, together with the device's work.
    """

    name = "device records"
    stage = Stage.DEVICE
    when = DEVICE_RECORDS

    def __init__(self, wanted: Sequence[str], *, with_device: bool) -> None:
        self._wanted, self._with_device = wanted, with_device

    @classmethod
    def made_for(cls, options: RecordOptions, _limit: MemoryLimit | None) -> Source:
        return cls(options[DEVICE_RECORDS], with_device=options[DEVICE])

    def start(self) -> None:
        if why := self._obstacle():
            notify(f"no {', '.join(self._wanted)} records of the device: {why}")

    def _obstacle(self) -> str:
        if not has_driver():
            return "no NVIDIA driver is loaded"
        if os.environ.get(OVERRIDE) == "off":
            return f"{OVERRIDE} is off"
        return "" if self._with_device else "the activities do not include the device"

    def stop(self) -> None:
        """Do nothing: there is nothing to end."""
