"""Where a program imports a profiler's names, and where it uses them."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum, auto
from typing import Any

import libcst as cst
from libcst import CSTNode as Node

from stepscope.migrate.mapping import ENUMS, HOMES, Dialect
from stepscope.migrate.parsed import Parsed, dotted


class Reach(Enum):
    """How an imported name leads to a profiler's."""

    MEMBER = auto()  # the name is a member
    MODULE = auto()  # the name is the module with the members
    PARENT = auto()  # the name is a parent package: torch of torch.profiler


@dataclass(eq=False)
class Imported:
    """A name that an import statement binds."""

    statement: Any
    alias: Any
    scope: Any
    local: str
    path: str  # what the local name stands for
    loads: str  # the module that the statement imports
    reach: Reach = Reach.PARENT
    dialect: Dialect | None = None
    is_plain: bool = False  # import a.b.c, which binds a
    uses: list[Node] = field(default_factory=list)  # all of them, the profiler's and others


@dataclass(eq=False)
class Reference:
    """A use of a profiler's name: ``torch.profiler.ProfilerActivity.CPU``, ``profile``."""

    node: Any  # from the root to the name, or the member
    imported: Imported
    dialect: Dialect
    name: str  # "" for the module itself
    member: str = ""


def find_imports(parsed: Parsed) -> list[Imported]:
    """Return every name that the program's import statements bind."""
    imports = []
    for node in parsed.nodes:
        if isinstance(node, cst.Import):
            imports += [_plain(parsed, node, alias) for alias in node.names]
        elif (
            isinstance(node, cst.ImportFrom)
            and not isinstance(node.names, cst.ImportStar)
            and node.module is not None
            and not node.relative
        ):
            imports += [_from(parsed, node, alias) for alias in node.names]
    return imports


def find_references(parsed: Parsed, imports: list[Imported]) -> list[Reference]:
    """Return the uses of the profilers' names, and note each use in its import."""
    by_statement: dict[tuple[Any, str], list[Imported]] = {}
    for imported in imports:
        by_statement.setdefault((imported.statement, imported.local), []).append(imported)
    references = []
    for node in parsed.nodes:
        if not isinstance(node, cst.Name) or not parsed.is_read(node):
            continue
        candidates = [
            imported
            for assignment in parsed.assignments(node)
            for imported in by_statement.get((getattr(assignment, "node", None), node.value), ())
        ]
        for imported in candidates:
            imported.uses.append(node)
        # `import torch` and `import torch.profiler` bind one name: prefer the second.
        for imported in sorted(candidates, key=lambda one: -len(one.loads)):
            reference = _reference(parsed, node, imported)
            if reference is not None:
                references.append(reference)
                break
    _leave_out_other_imports(imports, references)
    return references


@dataclass(frozen=True, eq=False)
class OtherUse:
    """A use of something in a profiler's modules that its dialect has no name for."""

    node: Any
    path: str


# torch's older profiler, with other arguments and results under the same names.
_OLDER = {"torch": "torch.autograd.profiler"}


def find_other_uses(parsed: Parsed, imports: list[Imported], source: Dialect) -> list[OtherUse]:
    """Return the uses of a dialect's modules that ``find_references`` leaves alone."""
    if source.module not in ("torch.profiler", "paddle.profiler"):
        return []  # other parts of stepscope are not profiler code
    uses = {}
    for imported in imports:
        for root in imported.uses:
            chain = _chain(parsed, root)
            path = ".".join([imported.path, *(node.attr.value for node in chain[1:])])
            dialect, rest = dialect_of(path)
            older = f"{_OLDER.get(source.vocabulary)}."
            is_other = dialect is source and rest and rest[0] not in dialect.names
            if is_other or path.startswith(older):
                uses[chain[-1]] = OtherUse(chain[-1], path)
    return list(uses.values())


def dialect_of(path: str) -> tuple[Dialect | None, list[str]]:
    """Return the dialect whose module a dotted path leads into, and the rest of the path."""
    parts = path.split(".")
    for length in range(len(parts), 0, -1):
        dialect = HOMES.get(".".join(parts[:length]))
        if dialect is not None:
            return dialect, parts[length:]
    return None, []


def _leave_out_other_imports(imports: list[Imported], references: list[Reference]) -> None:
    """Leave out imports that the rest of the program uses: ``stepscope.read_trace``."""
    users: dict[Imported, int] = {}
    for reference in references:
        users[reference.imported] = users.get(reference.imported, 0) + 1
    for imported in imports:
        used = users.get(imported, 0)
        if imported.is_plain and not used:
            imported.dialect = None
        elif imported.reach is Reach.MODULE and used < len(imported.uses):
            imported.reach, imported.dialect = Reach.PARENT, None


def _plain(parsed: Parsed, node: Any, alias: Any) -> Imported:
    module = dotted(alias.name)
    if alias.asname is None:
        root = module.partition(".")[0]
        imported = Imported(node, alias, parsed.scope(node), root, root, module, is_plain=True)
        imported.dialect = HOMES.get(module)
        return imported
    local = dotted(alias.asname.name)
    return _classified(Imported(node, alias, parsed.scope(node), local, module, module))


def _from(parsed: Parsed, node: Any, alias: Any) -> Imported:
    name = alias.name.value
    local = name if alias.asname is None else dotted(alias.asname.name)
    module = dotted(node.module)
    return _classified(Imported(node, alias, parsed.scope(node), local, f"{module}.{name}", module))


def _classified(imported: Imported) -> Imported:
    dialect, rest = dialect_of(imported.path)
    if dialect is not None and not rest:
        imported.reach, imported.dialect = Reach.MODULE, dialect
    elif dialect is not None and len(rest) == 1 and rest[0] in dialect.names:
        imported.reach, imported.dialect = Reach.MEMBER, dialect
    return imported


def _chain(parsed: Parsed, root: Any) -> list[Any]:
    """Return a name, and every attribute of it: ``a``, ``a.b``, ``a.b.c``."""
    chain = [root]
    while True:
        parent = parsed.parent(chain[-1])
        if not isinstance(parent, cst.Attribute) or parent.value is not chain[-1]:
            return chain
        chain.append(parent)


def _reference(parsed: Parsed, root: Any, imported: Imported) -> Reference | None:
    chain = _chain(parsed, root)
    path = ".".join([imported.path, *(node.attr.value for node in chain[1:])])
    dialect, rest = dialect_of(path)
    if dialect is None:
        return None
    if not rest:
        # A bare `stepscope` does not tell which members are used.
        is_package = imported.is_plain and len(chain) == 1
        return None if is_package else Reference(chain[-1], imported, dialect, "")
    if rest[0] not in dialect.names:
        return None
    name_at = len(chain) - len(rest)
    if len(rest) > 1 and rest[0] in ENUMS:
        return Reference(chain[name_at + 1], imported, dialect, rest[0], rest[1])
    return Reference(chain[name_at], imported, dialect, rest[0])
