"""Links code that Inductor generated to the lines and modules of the model.

Dynamo's graph has the line and the module of each node; the generated module names the nodes above
each kernel call. Together they tell which lines of the model a line of generated code runs.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Callable, Mapping, Sequence
from functools import cache, partial
from pathlib import Path, PurePath
from typing import TYPE_CHECKING, Any

from stepscope._native import shielded
from stepscope.record.journal import Journal, entries, fits
from stepscope.record.options import HOST, INSIDE
from stepscope.record.patching import Patches, PatchesWhenImported
from stepscope.record.source import Source, Stage
from stepscope.trace.names import MODULE_PREFIX

if TYPE_CHECKING:
    from collections.abc import Iterator

    from stepscope.record.limits import MemoryLimit
    from stepscope.record.options import RecordOptions
    from stepscope.record.stream.left_behind import LeftBehind
    from stepscope.trace.schema import Captured

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


_AOT_ID = re.compile(r"# AOT ID: \['(\d+)_")
_SOURCE_NODES = re.compile(r"\s+# Topologically Sorted Source Nodes: \[([^\]]*)\]")
_STACK_LINE = re.compile(r'File "(.+)", line (\d+), in (.+)')
_PRINTED_PLACE = re.compile(r"\s*#.* File: (.+):(\d+) in (.+?), code: ")
_PRINTED_NODE = re.compile(r"\s+(\w+)(?:: \"[^\"]*\")? = ")
_MODULE_ROOT = re.compile(r"^L\['\w+'\]\.?|^L\['\w+'\]$")


_Graph = Mapping[str, tuple[str, str]]  # frame and module by node name
_origins = Origins()
_noted_files: set[str] = set()
_journals: list[Journal] = []  # of all active recordings
os.register_at_fork(after_in_child=shielded(_journals.clear))


class TorchGeneratedCode(Source):
    """Listens to compilations, and extends the stacks of generated code."""

    name = "generated code"
    stage = Stage.OPERATORS
    when = HOST

    def __init__(self, *, is_inside: bool = False) -> None:
        self._patches = PatchesWhenImported("torch._inductor.compile_fx", _compile_fx)
        self._journal = Journal(self.name, is_on=is_inside)

    @classmethod
    def made_for(cls, options: RecordOptions, _limit: MemoryLimit | None) -> Source:
        return cls(is_inside=options[INSIDE])

    def start(self) -> None:
        for entry in _origins.entries():  # a forked child runs what its parent compiled
            self._journal.add(entry)
        _journals.append(self._journal)
        self._patches.start()

    def stop(self) -> None:
        self._patches.stop()
        _note_files()
        if self._journal in _journals:
            _journals.remove(self._journal)

    def refine(self, captured: Captured) -> Captured:
        """Add the lines of the model to stacks that end in generated code."""
        return _refined(captured, _origins)

    @classmethod
    def refine_recovered(cls, captured: Captured, remains: LeftBehind) -> Captured:
        origins = Origins()
        for entry in entries(remains, cls.name):
            origins.add_if_fit(entry)
        return _refined(captured, origins)


def _refined(captured: Captured, origins: Origins) -> Captured:
    if not origins:
        return captured
    from stepscope.frameworks.torch.generated_stacks import with_origins

    return with_origins(captured, origins.frames_of)


def _patch_compile_fx(patches: Patches) -> None:
    module = sys.modules["torch._inductor.compile_fx"]

    def listening(theirs: Any, note: Callable[[_Graph, Sequence[str]], None]) -> Any:
        def compile_graph(model: Any, *args: Any, **kwargs: Any) -> Any:
            graph = _graph(model) if patches.in_use else {}  # lowering changes it
            count_before = len(_generated_files())
            compiled = theirs(model, *args, **kwargs)
            note(graph, _generated_files()[count_before:])
            return compiled

        return compile_graph

    for name, note in (("compile_fx", _note_graph), ("_compile_fx_inner", _note_lowered)):
        if hasattr(module, name):
            patches.wrap(module, name, partial(listening, note=note))

    def taking(theirs: Any) -> Any:
        def post_compile(compiled: Any, *args: Any, **kwargs: Any) -> Any:
            if patches.in_use:
                _note_compiled(compiled)
            loaded = theirs(compiled, *args, **kwargs)
            if patches.in_use:
                _note_files()
            return loaded

        return post_compile

    # Inductor's cache returns compiled code without the graph.
    kind = getattr(sys.modules.get("torch._inductor.output_code"), "CompiledFxGraph", None)
    if kind is not None:
        patches.wrap(kind, "post_compile", taking)


_compile_fx = Patches(_patch_compile_fx)


def _note(entry: Mapping[str, Any]) -> None:
    _origins.add(entry)
    for journal in tuple(_journals):
        journal.add(entry)


def _note_graph(graph: _Graph, files: Sequence[str]) -> None:
    """Note Dynamo's graph for the modules generated from it.

    The modules of its backward pass are written later, with the same number.
    """
    for number in {_parsed(file)[NUMBER] for file in files} if graph else ():
        if number >= 0:
            _note({GRAPH: number, NODES: graph})
    _note_files()


def _note_lowered(graph: _Graph, files: Sequence[str]) -> None:
    """Note the nodes of a backward pass, which Dynamo's graph does not have."""
    for file in files if graph else ():
        _note({LOWERED: PurePath(file).name, NODES: graph})


def _note_compiled(compiled: Any) -> None:
    """Note the graph that was printed when the module was generated."""
    key = getattr(compiled, "cache_key", None)
    text = getattr(compiled, "inductor_post_grad_graph_str", None)
    if isinstance(key, str) and isinstance(text, str):
        _note({PRINTED: f"{key}.py", NODES: _printed_graph(text)})


def _note_files() -> None:
    """Note the nodes above each line of generated files; the cache may be emptied."""
    for file in _generated_files():
        if PurePath(file).name not in _noted_files:
            _noted_files.add(PurePath(file).name)
            _note(_parsed(file))


def _graph(model: Any) -> _Graph:
    nodes = getattr(getattr(model, "graph", None), "nodes", ())
    return {node.name: origin for node in nodes if (origin := _origin(node)) is not None}


def _origin(node: Any) -> tuple[str, str] | None:
    lines = (node.meta.get("stack_trace") or "").splitlines()
    matches = (_STACK_LINE.search(line) for line in reversed(lines))
    place = next(filter(None, matches), None)
    if place is None:
        return None
    modules = node.meta.get("nn_module_stack") or node.meta.get("fwd_nn_module_stack") or {}
    stack = list(modules.values())
    module = ""
    if stack:
        path, kind = stack[-1][:2]
        name = kind if isinstance(kind, str) else kind.__name__
        path = _MODULE_ROOT.sub("", str(path))
        module = f"{path} ({name.rpartition('.')[2]})" if path else name.rpartition(".")[2]
    return f"{_shown(place[1])}({place[2]}): {place[3]}", module


def _printed_graph(text: str) -> _Graph:
    """Parse a printed graph: nodes stand below their line of the model."""
    graph: dict[str, tuple[str, str]] = {}
    frame = ""
    for line in text.splitlines():
        if place := _PRINTED_PLACE.match(line):
            frame = f"{_shown(place[1])}({place[2]}): {place[3]}"
        elif line.lstrip().startswith("#"):
            frame = ""  # the place of the next nodes is unknown
        elif frame and (node := _PRINTED_NODE.match(line)):
            graph[node[1]] = frame, ""
    return graph


@cache
def _shown(file: str) -> str:
    """Return a file as stacks name it, relative to the folder that it is imported from."""
    folders = sorted((folder for folder in sys.path if folder), key=len, reverse=True)
    inside = (folder for folder in folders if file.startswith(folder.rstrip("/") + "/"))
    folder = next(inside, None)
    return file if folder is None else str(PurePath(file).relative_to(folder))


def _generated_files() -> list[str]:
    """Return the modules that Inductor has generated and loaded, in that order."""
    cached = getattr(sys.modules.get("torch._inductor.codecache"), "PyCodeCache", None)
    modules = getattr(cached, "modules", ())
    return [file for module in modules if (file := getattr(module, "__file__", None))]


@cache
def _parsed(file: str) -> Mapping[str, Any]:
    """Read a file that Inductor generated: its graph's number, and the nodes in its comments."""
    try:
        text = Path(file).read_text(encoding="utf-8", errors="replace")
    except OSError:  # the cache was emptied
        text = ""
    number = _AOT_ID.match(text)
    lines: list[tuple[int, int, list[str]]] = []
    names: list[str] = []
    first = 0
    for line, written in enumerate([*text.splitlines(), ""], 1):
        is_call = bool(names and written.strip())
        nodes = _SOURCE_NODES.match(written)
        if names and (nodes or not is_call):
            lines.append((first, line - 1, names))
            names = []
        if nodes:
            names = [name.strip() for name in nodes[1].split(",") if name.strip()]
            first = line + 1
    name = PurePath(file).name
    return {FILE: name, NUMBER: int(number[1]) if number else -1, LINES: lines}
