"""Code that Inductor generated, tied to the lines and modules of the model that it came from.

Dynamo's graph knows the line and the module of each of its nodes; the generated module names the
nodes above each kernel that it calls. Together they say for a line of generated code which lines of
the model it runs.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path, PurePath
from typing import TYPE_CHECKING, Any

from stepscope.record.options import HOST
from stepscope.record.patching import Patches, PatchesWhenImported
from stepscope.record.source import Source, Stage
from stepscope.trace.names import MODULE_PREFIX

if TYPE_CHECKING:
    from stepscope.trace.schema import Captured

_AOT_ID = re.compile(r"# AOT ID: \['(\d+)_")
_SOURCE_NODES = re.compile(r"\s+# Topologically Sorted Source Nodes: \[([^\]]*)\]")
_STACK_LINE = re.compile(r'File "(.+)", line (\d+), in (.+)')
_PRINTED_PLACE = re.compile(r"\s*#.* File: (.+):(\d+) in (.+?), code: ")
_PRINTED_NODE = re.compile(r"\s+(\w+)(?:: \"[^\"]*\")? = ")
_MODULE_ROOT = re.compile(r"^L\['\w+'\]\.?|^L\['\w+'\]$")


@dataclass(frozen=True, slots=True)
class Origin:
    """Where a node of a graph comes from."""

    frame: str  # "model.py(12): forward"
    module: str  # "blocks.0.fc (Linear)", "" outside of any

    @property
    def frames(self) -> tuple[str, ...]:
        """Return it as frames of a stack, the outermost first."""
        module = (MODULE_PREFIX + self.module,) if self.module else ()
        return (*module, self.frame)


_Graph = Mapping[str, Origin]  # by the node's name
_graphs: dict[int, _Graph] = {}  # Dynamo's, by the number that a generated module has
_lowered: dict[str, _Graph] = {}  # what a module was generated from, by its file's name
_printed: dict[str, str] = {}  # the same as text, of modules from Inductor's cache


class TorchGeneratedCode(Source):
    """The source: it listens to compilations, and extends the stacks of generated code."""

    name = "generated code"
    stage = Stage.OPERATORS
    when = HOST

    def __init__(self) -> None:
        """Touch nothing yet."""
        self._patches = PatchesWhenImported("torch._inductor.compile_fx", _compile_fx)

    def start(self) -> None:
        """Listen to Inductor, from now or from its import on."""
        self._patches.start()

    def stop(self) -> None:
        """Listen no longer."""
        self._patches.stop()

    def refine(self, captured: Captured) -> Captured:
        """Let events in generated code stand on the lines that it was generated from."""
        if not _graphs and not _lowered and not _printed:
            return captured
        from stepscope.frameworks.torch.generated_stacks import with_origins

        return with_origins(captured, lambda *place: [each.frames for each in origins(*place)])


def _patch_compile_fx(patches: Patches) -> None:
    module = sys.modules["torch._inductor.compile_fx"]

    def listening(theirs: Any, note: Callable[[_Graph, Sequence[str]], None]) -> Any:
        def compile_graph(model: Any, *args: Any, **kwargs: Any) -> Any:
            graph = _graph(model) if patches.in_use else {}  # lowering changes it
            known = len(_generated_files())
            compiled = theirs(model, *args, **kwargs)
            note(graph, _generated_files()[known:])
            return compiled

        return compile_graph

    for name, note in (("compile_fx", _note_graph), ("_compile_fx_inner", _note_lowered)):
        if hasattr(module, name):
            patches.wrap(module, name, partial(listening, note=note))

    def taking(theirs: Any) -> Any:
        def post_compile(compiled: Any, *args: Any, **kwargs: Any) -> Any:
            if patches.in_use:
                _note_compiled(compiled)
            return theirs(compiled, *args, **kwargs)

        return post_compile

    # From its cache it takes what was compiled, without the graph.
    kind = getattr(sys.modules.get("torch._inductor.output_code"), "CompiledFxGraph", None)
    if kind is not None:
        patches.wrap(kind, "post_compile", taking)


_compile_fx = Patches(_patch_compile_fx)


def _note_graph(graph: _Graph, files: Sequence[str]) -> None:
    """Remember Dynamo's graph for the modules generated from it.

    Those of its backward pass are written later, and carry the same number.
    """
    numbers = {number for file in files if (number := _parsed(file).number) is not None}
    if graph:
        _graphs.update(dict.fromkeys(numbers, graph))


def _note_lowered(graph: _Graph, files: Sequence[str]) -> None:
    """Remember the nodes of a backward pass, which Dynamo's graph does not have."""
    if not graph:
        return
    for file in files:
        _lowered[PurePath(file).name] = graph
        _printed.pop(PurePath(file).name, None)  # says no more


def _note_compiled(compiled: Any) -> None:
    """Remember the graph as it was printed when the module was generated."""
    key = getattr(compiled, "cache_key", None)
    text = getattr(compiled, "inductor_post_grad_graph_str", None)
    if isinstance(key, str) and isinstance(text, str):
        _printed[f"{key}.py"] = text


def _graph(model: Any) -> _Graph:
    nodes = getattr(getattr(model, "graph", None), "nodes", ())
    return {node.name: origin for node in nodes if (origin := _origin(node)) is not None}


def _origin(node: Any) -> Origin | None:
    lines = (node.meta.get("stack_trace") or "").splitlines()
    found = next((place for line in reversed(lines) if (place := _STACK_LINE.search(line))), None)
    if found is None:
        return None
    modules = node.meta.get("nn_module_stack") or node.meta.get("fwd_nn_module_stack") or {}
    stack = list(modules.values())
    module = ""
    if stack:
        path, kind = stack[-1][:2]
        name = kind if isinstance(kind, str) else kind.__name__
        path = _MODULE_ROOT.sub("", str(path))
        module = f"{path} ({name.rpartition('.')[2]})" if path else name.rpartition(".")[2]
    return Origin(f"{_shown(found[1])}({found[2]}): {found[3]}", module)


@cache
def _printed_graph(text: str) -> _Graph:
    """Return a graph that was printed: the nodes stand below their line of the model."""
    modules: dict[str, set[str]] = {}  # in Dynamo's graphs, by frame
    for graph in _graphs.values():
        for each in graph.values():
            modules.setdefault(each.frame, set()).add(each.module)
    found: dict[str, Origin] = {}
    frame = ""
    for line in text.splitlines():
        if place := _PRINTED_PLACE.match(line):
            frame = f"{_shown(place[1])}({place[2]}): {place[3]}"
        elif line.lstrip().startswith("#"):
            frame = ""  # nothing is known of the next ones
        elif frame and (node := _PRINTED_NODE.match(line)):
            found[node[1]] = Origin(frame, _module_of(modules.get(frame, set())))
    return found


def _module_of(modules: set[str]) -> str:
    """Return the module that a line belongs to, or the kind of several, by all that run there.

    A line that calls other modules belongs to the one around them.
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


@cache
def _shown(file: str) -> str:
    """Return a file as stacks name it: without the folder that it is imported from."""
    folders = sorted((folder for folder in sys.path if folder), key=len, reverse=True)
    inside = (folder for folder in folders if file.startswith(folder.rstrip("/") + "/"))
    folder = next(inside, None)
    return file if folder is None else str(PurePath(file).relative_to(folder))


def _generated_files() -> list[str]:
    """Return the modules that Inductor has generated and loaded, in that order."""
    cached = getattr(sys.modules.get("torch._inductor.codecache"), "PyCodeCache", None)
    modules = getattr(cached, "modules", ())
    return [file for module in modules if (file := getattr(module, "__file__", None))]


@dataclass(frozen=True, slots=True)
class _Generated:
    number: int | None
    nodes: Mapping[int, tuple[str, ...]]  # by line: those of the call that begins or goes on there


@cache
def _parsed(file: str) -> _Generated:
    try:
        text = Path(file).read_text(encoding="utf-8", errors="replace")
    except OSError:  # somebody emptied the cache
        return _Generated(None, {})
    number = _AOT_ID.match(text)
    nodes: dict[int, tuple[str, ...]] = {}
    names: tuple[str, ...] = ()
    for line, written in enumerate(text.splitlines(), 1):
        if found := _SOURCE_NODES.match(written):
            names = tuple(name.strip() for name in found[1].split(",") if name.strip())
        elif names and written.strip():
            nodes[line] = names
        else:
            names = ()
    return _Generated(int(number[1]) if number else None, nodes)


def origins(file: str, line: int) -> tuple[Origin, ...]:
    """Return where a line of generated code comes from, in the order of the model."""
    # Stacks leave out the folder that a file is imported from.
    name = PurePath(file).name
    path = next((each for each in _generated_files() if PurePath(each).name == name), file)
    generated = _parsed(path)
    graph = _graphs.get(-1 if generated.number is None else generated.number, {})
    lowered = _lowered.get(name) or _printed_graph(_printed.get(name, ""))
    found = (graph.get(node) or lowered.get(node) for node in generated.nodes.get(line, ()))
    return tuple(dict.fromkeys(origin for origin in found if origin is not None))
