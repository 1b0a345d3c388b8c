"""Which lines of a model a line of generated code runs, as plain data.

There are four kinds of entries, each with a name: a ``graph`` of Dynamo's, by the number that its
generated modules have; what a module was ``lowered`` from, by its file; the same as it was
``printed``, for modules from Inductor's cache; and the nodes above each line of a generated
``file``.
"""

from __future__ import annotations

from pathlib import PurePath
from typing import TYPE_CHECKING, Any

from stepscope.record.journal import fits
from stepscope.trace.names import MODULE_PREFIX

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    Entry = Mapping[str, Any]

GRAPH, LOWERED, PRINTED, FILE = "graph", "lowered", "printed", "file"
NODES = "nodes"  # of a graph: [frame, module] by node name, ["model.py(12): forward", "fc"]
LINES = "lines"  # of a file: [first, last, [nodes, ...]]
NUMBER = "number"  # of a file: its graph's number; negative if it has none


class Origins:
    def __init__(self) -> None:
        self._entries: dict[tuple[str, object], Entry] = {}
        self._modules: dict[str, set[str]] | None = None  # by frame, the modules in Dynamo's graphs

    def __bool__(self) -> bool:
        return bool(self._entries)

    def entries(self) -> list[Entry]:
        """Return the added entries that were not replaced."""
        return list(self._entries.values())

    def add(self, entry: Entry) -> None:
        """Add an entry; it replaces the one of the same kind and name."""
        kind, name = next((kind, entry[kind]) for kind in _KINDS if kind in entry)
        self._entries[kind, name] = entry
        if kind == GRAPH:
            self._modules = None
        if kind == LOWERED:
            self._entries.pop((PRINTED, name), None)

    def add_if_fit(self, entry: Entry) -> None:
        """Add an entry of a stream unless it is malformed."""
        kind = next((kind for kind in _KINDS if kind in entry), "")
        nodes, name = entry.get(NODES), entry.get(kind)
        if kind == FILE:
            lines = entry.get(LINES)
            is_fit = fits([name, entry.get(NUMBER)], str, int) and isinstance(lines, list)
            is_fit = is_fit and all(map(_is_of_lines, lines or ()))
        else:
            is_fit = bool(kind) and type(name) is (int if kind == GRAPH else str)
            is_fit = is_fit and isinstance(nodes, dict) and all(map(_is_origin, nodes.values()))
        if is_fit:
            self.add(entry)

    def frames_of(self, file: str, line: int) -> list[tuple[str, ...]]:
        """Return the frames of the model that a line of generated code stands for, in model order.

        Each is the model's innermost frame, below the module that it belongs to.
        """
        name = PurePath(file).name  # stacks omit the folder that a file is imported from
        generated = self._entries.get((FILE, name))
        if generated is None:
            return []
        graph = self._nodes(GRAPH, generated[NUMBER])
        lowered = self._nodes(LOWERED, name) or self._printed(name)
        names = next(
            (nodes for first, last, nodes in generated[LINES] if first <= line <= last), ()
        )
        origins = (graph.get(node) or lowered.get(node) for node in names)
        return list(dict.fromkeys(_frames(*origin) for origin in origins if origin is not None))

    def _nodes(self, kind: str, name: object) -> Mapping[str, Any]:
        nodes: Mapping[str, Any] = self._entries.get((kind, name), {}).get(NODES, {})
        return nodes

    def _printed(self, name: str) -> dict[str, tuple[str, str]]:
        """Return a printed graph, with modules from Dynamo's graphs, which it does not name."""
        if self._modules is None:
            self._modules = {}
            for (kind, _), entry in self._entries.items():
                for frame, module in entry[NODES].values() if kind == GRAPH else ():
                    self._modules.setdefault(frame, set()).add(module)
        return {
            node: (frame, _module_of(self._modules.get(frame, set())))
            for node, (frame, _) in self._nodes(PRINTED, name).items()
        }


_KINDS = (GRAPH, LOWERED, PRINTED, FILE)


def _is_origin(value: object) -> bool:
    return fits(value, str, str)


def _is_of_lines(value: object) -> bool:
    if not isinstance(value, list) or not fits(value, int, int, list):
        return False
    return all(isinstance(node, str) for node in value[2])


def _frames(frame: str, module: str) -> tuple[str, ...]:
    """Return an origin as frames of a stack, the outermost first."""
    return (MODULE_PREFIX + module, frame) if module else (frame,)


def _module_of(modules: set[str]) -> str:
    """Return the module of a line, or the kind of several, given all modules that ran it.

    A line that calls other modules belongs to the outermost one.
    """
    if len(modules) <= 1:
        return "".join(modules)
    kind_of_path = dict(_path_and_kind(module) for module in modules if module)
    kinds = {
        kind
        for path, kind in kind_of_path.items()
        if not any(around in kind_of_path for around in _paths_around(path))
    }
    return kinds.pop() if len(kinds) == 1 else ""


def _path_and_kind(module: str) -> tuple[str, str]:
    path, opening, kind = module.rpartition(" (")
    return (path, kind.rstrip(")")) if opening else ("", module)


def _paths_around(path: str) -> Iterator[str]:
    while path:
        path = path.rpartition(".")[0]
        yield path
