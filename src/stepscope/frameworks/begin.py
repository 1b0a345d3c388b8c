"""Records the frameworks that the program has imported, in its own process.

The agent in ``boot`` calls this, and records by itself what any Python program does. Nothing that
reads recordings may be imported from here.
"""

from __future__ import annotations

from stepscope.errors import reason_of
from stepscope.notices import notify
from stepscope.record import triggers
from stepscope.record.interrupts import HeldSignals
from stepscope.record.post_import import note_executed

TYPE_CHECKING = False  # nothing here imports more than a program has that we record
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence
    from typing import Any

    from stepscope.record.limits import MemoryLimit
    from stepscope.record.options import RecordOptions
    from stepscope.record.patching import PatchesWhenImported
    from stepscope.record.source import Source

    Plan = Mapping[str, str]

_begun: dict[str, Plan] = {}  # by trigger
_claims: dict[str, object] = {}  # kinds that are recorded, or about to be
_sources: list[Source] = []  # in the order in which they started
_turned_off: list[Source] = []
_servers: list[PatchesWhenImported] = []


def begin(trigger: str, plan: Plan) -> None:
    """Record a framework, now that the code of its package has run.

    The trigger ``triggers.EXTENSIONS`` begins with the sources of other packages.
    """
    with HeldSignals():
        note_executed(trigger)
        _begun[trigger] = plan
        kinds = triggers.TRIGGERS.get(trigger, (trigger,))
        if triggers.REQUESTS in kinds:
            _record_requests(trigger, plan)
            return
        classes = [source for kind in kinds if _is_first(kind) for source in _CLASSES[kind](plan)]
        for source in _made(classes, plan):
            if _attempt(source.name, source.open, source.prepare, source.start):
                _sources.append(source)


def describe() -> Mapping[str, Any]:
    """Return what the sources know, as plain data."""
    if not _sources:
        return {}
    from stepscope.record.source import described

    return described(tuple(_sources))


def turn_off(burden: str) -> bool:
    """Stop the sources of a burden, while all others go on; return whether there were any."""
    dear = [source for source in _sources if source.burden and source.burden.value == burden]
    for source in dear:
        _turned_off.append(source)
        _attempt(source.name, source.stop)
    return bool(dear)


def stop(files: str) -> None:
    """End recording; what was recorded is in the stream, and is described as before.

    What the stream does not have of a source is left in a file whose name begins with ``files``.
    """
    stopped = tuple(_sources)
    for source in reversed(stopped):
        if source not in _turned_off:
            _attempt(source.name, source.stop)
    for number, source in enumerate(stopped):
        _deliver(source, f"{files}-{number}")
    for source in stopped:
        _attempt(source.name, source.close)
    for server in tuple(_servers):
        _attempt(triggers.REQUESTS, server.stop)


def after_fork_in_child() -> None:
    """Record again in a forked child, where nothing that the parent started goes on."""
    begun = dict(_begun)
    for state in (_sources, _turned_off, _servers, _claims):
        state.clear()
    _is_first(triggers.DEVICES)  # neither CUPTI nor CUDA itself survives a fork
    for trigger, plan in begun.items():
        begin(trigger, plan)


def _is_first(kind: str) -> bool:
    """Return whether this kind starts for the first time; other threads may import, too."""
    claim = object()
    return _claims.setdefault(kind, claim) is claim


def _deliver(source: Source, file: str) -> None:
    """Save the events of a source that has no ``recover``: nothing else would find them."""
    from stepscope.record.source import Source

    def save() -> None:
        if (events := source.collect()) is None:
            return
        from pathlib import Path

        from stepscope.record.stream.delivery import DELIVERY, Delivery

        Delivery(events, source.lost).save(Path(file + DELIVERY))

    if all("recover" not in vars(base) for base in type(source).__mro__ if base is not Source):
        _attempt(source.name, save)


def _attempt(name: str, *moves: Callable[[], object]) -> bool:
    """Return whether all steps of a source succeeded; an error is only printed."""
    try:
        for move in moves:
            move()
    except Exception as error:
        notify(f"{name}: not recorded as it should be: {reason_of(error)}")
        return False
    return True


def _made(classes: Sequence[type[Source]], plan: Plan) -> Sequence[Source]:
    from stepscope.record.source import in_order, made_sources

    return made_sources(in_order(classes), _options(plan), _limit(plan))


def _options(plan: Plan) -> RecordOptions:
    from stepscope.record.options import INSIDE, STACKS, RecordOptions

    given = _parsed(plan.get("options") or "{}")
    return RecordOptions(**{STACKS.name: plan["stacks"], **given, INSIDE.name: True})


def _parsed(text: str) -> Any:
    """Parse JSON; the program may lack the module ``json``."""
    import _json

    class Context:
        strict = True
        object_hook = object_pairs_hook = parse_constant = None
        parse_float, parse_int = float, int

    make_scanner: Any = _json.make_scanner
    return make_scanner(Context)(text, 0)[0]


def _limit(plan: Plan) -> MemoryLimit | None:
    from stepscope.record.limits import Keep, MemoryLimit

    size = int(plan["limit_bytes"])
    if not size:
        return None
    keep = Keep.NEWEST if plan["keep_newest"] == "1" else Keep.OLDEST
    return MemoryLimit(size, keep, plan["is_ring"] == "1", float(plan["seconds"]))


# ---- what each kind begins


def _record_requests(library: str, plan: Plan) -> None:
    """Record the requests that a server library handles, if tasks are recorded."""
    if plan["tasks"] != "1" or not _is_first(library):
        return
    from stepscope.frameworks.python.servers import server

    handled = server(library)
    if _attempt(triggers.REQUESTS, handled.start):
        _servers.append(handled)


def _of_torch(plan: Plan) -> Iterable[type[Source]]:
    if plan.get("patch_torch") == "1":
        from stepscope.frameworks.torch.patch import patch_torch

        patch_torch().__enter__()
    from stepscope.frameworks.torch.sources import torch_sources

    return torch_sources()


def _of_paddle(_: Plan) -> Iterable[type[Source]]:
    from stepscope.frameworks.paddle.sources import paddle_sources

    return paddle_sources()


def _of_devices(_: Plan) -> Iterable[type[Source]]:
    from stepscope.frameworks.cuda.sources import device_sources

    return device_sources()


def _of_annotations(_: Plan) -> Sequence[type[Source]]:
    from stepscope.frameworks.python.annotations import Annotations

    return (Annotations,)


def _of_extensions(plan: Plan) -> Sequence[type[Source]]:
    from stepscope.lazy import named

    return [named(place) for place in plan["extensions"].split()]


_CLASSES: Mapping[str, Callable[[Plan], Iterable[type[Source]]]] = {
    triggers.PYTORCH: _of_torch,
    triggers.PADDLE: _of_paddle,
    triggers.DEVICES: _of_devices,
    triggers.ANNOTATIONS: _of_annotations,
    triggers.EXTENSIONS: _of_extensions,
}
