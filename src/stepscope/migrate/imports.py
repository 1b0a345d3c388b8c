"""Converts import statements, and returns how names are spelled afterwards."""

from __future__ import annotations

from collections import defaultdict
from typing import Any

import libcst as cst
from libcst import CSTNode as Node

from stepscope.migrate.conversion import Conversion
from stepscope.migrate.edits import REMARK, missing_text
from stepscope.migrate.mapping import STEPSCOPE_PADDLE
from stepscope.migrate.references import Imported, Reach, Reference

_USUAL_ALIAS = "profiler"  # import stepscope.paddle as profiler


class Imports:
    """Converts the imports of one dialect to another's."""

    def __init__(self, conversion: Conversion, imports: list[Imported]) -> None:
        self._parsed = conversion.parsed
        self._edits = conversion.edits
        self._way = conversion.way
        self._target = conversion.target
        self._all = imports
        self._mine = [one for one in imports if one.dialect is conversion.source]
        self._still_needed: set[Imported] = set()  # members that have no counterpart
        self._rewritten: defaultdict[Imported, set[Node]] = defaultdict(set)
        self._added: defaultdict[Node, dict[str, str]] = defaultdict(dict)
        self._prefixes: dict[Node, str] = {}
        self._locals = {
            imported: self._new_local(imported)
            for imported in self._mine
            if imported.reach is Reach.MEMBER
        }

    def keep(self, reference: Reference) -> None:
        """Keep the import that a name without counterpart comes from."""
        imported = reference.imported
        if imported.reach is not Reach.MODULE:
            self._still_needed.add(imported)
            return
        # The other module takes the name, so this one needs its full name.
        text = _join(reference.dialect.module, reference.name)
        node = reference.node.value if reference.member else reference.node
        self._edits.replace(self._parsed.start(node), self._parsed.end(node), text)
        self._add_statement(imported.statement, f"import {reference.dialect.module}")

    def spell(self, reference: Reference, name: str) -> str:
        """Return how to spell ``name`` in place of a reference; ``""`` is the module itself."""
        imported = reference.imported
        self._rewritten[imported].add(_root(reference.node))
        if imported.reach is Reach.MEMBER:
            return self._locals[imported]
        return _join(self._module_text(imported), name)

    def spell_new(self, origin: Reference, name: str, at: Node) -> str | None:
        """Return how to spell a name that the program has not used before; None if impossible."""
        imported = origin.imported
        if not self._parsed.is_visible(imported.scope, at):
            return None
        if imported.reach is not Reach.MEMBER:
            return _join(self._module_text(imported), name)
        for other in self._all:
            is_it = other.path == f"{self._target.module}.{name}" or (
                other in self._locals and self._counterpart(other) == name
            )
            if is_it and self._parsed.is_visible(other.scope, at):
                return self._locals.get(other, other.local)
        local = name if self._is_free(name) else f"profiler_{name}"
        self._added[imported.statement][name] = local
        return local

    def convert(self) -> int:
        """Convert the statements; return how many imported names they had."""
        statements: defaultdict[Any, list[Imported]] = defaultdict(list)
        for imported in self._mine:
            statements[imported.statement].append(imported)
        for statement, imported_names in statements.items():
            if isinstance(statement, cst.Import):
                for imported in imported_names:
                    self._convert_plain(imported)
            else:
                self._convert_from(statement, imported_names)
        for statement, prefix in self._prefixes.items():
            if statement not in statements:
                self._add_statement(statement, f"import {self._import_text(prefix)}")
        return len(self._mine)

    def _new_local(self, imported: Imported) -> str:
        name = self._counterpart(imported)
        is_mine = all(
            getattr(assignment, "node", None) is imported.statement
            for assignment in imported.scope[imported.local]
        )
        if name is None or imported.alias.asname is not None or not is_mine:
            return imported.local
        return name if name == imported.local or self._is_free(name) else imported.local

    def _counterpart(self, imported: Imported) -> str | None:
        return self._way.names.get(imported.path.rpartition(".")[2])

    def _is_free(self, name: str) -> bool:
        """Return whether the program does not use a name otherwise."""
        path = f"{self._target.module}.{name}"
        same = any(one.local == name and one.path == path for one in self._all)
        return same or name not in self._parsed.bound_names

    def _module_text(self, imported: Imported) -> str:
        """Return the target module's spelling where ``imported`` was the source's."""
        if imported.reach is Reach.MODULE:
            return imported.local
        module = self._target.module
        for other in self._all:
            if not self._parsed.is_visible(other.scope, imported.statement):
                continue
            if other.path == module and not other.is_plain:
                return other.local
            # Importing a framework imports its profiler.
            package = module.partition(".")[0]
            if other.is_plain and (other.loads == module or other.loads == package != "stepscope"):
                return module
        use_alias = self._target is STEPSCOPE_PADDLE and self._is_free(_USUAL_ALIAS)
        prefix = _USUAL_ALIAS if use_alias else module
        return self._prefixes.setdefault(imported.statement, prefix)

    def _import_text(self, prefix: str) -> str:
        module = self._target.module
        return module if prefix == module else f"{module} as {prefix}"

    def _convert_plain(self, imported: Imported) -> None:
        """Convert ``import torch.profiler``, with or without another name."""
        parsed, name = self._parsed, imported.alias.name
        if imported.reach is Reach.MODULE:
            self._edits.replace(parsed.start(name), parsed.end(name), self._target.module)
            return
        if not self._rewritten[imported]:
            return  # nothing of it has a counterpart
        others = set(imported.uses) - self._rewritten[imported]
        bound_elsewhere = any(
            one.local == imported.local and one.is_plain and one.dialect is None
            for one in self._all
        )
        new = self._import_text(self._module_text(imported))
        if others and not bound_elsewhere:
            # The rest of the program still uses this import.
            is_ours = imported.local == "stepscope"
            keep = imported.loads if is_ours else imported.local
            self._edits.replace(parsed.start(name), parsed.end(name), keep)
            self._add_statement(imported.statement, f"import {new}")
        else:
            self._edits.replace(parsed.start(name), parsed.end(name), new)

    def _convert_from(self, statement: Any, imported_names: list[Imported]) -> None:
        """Convert ``from torch.profiler import profile`` and ``from torch import profiler``."""
        parsed, edits = self._parsed, self._edits
        by_alias = {imported.alias: imported for imported in imported_names}
        new = {
            alias: self._new_alias(by_alias[alias])
            for alias in statement.names
            if alias in by_alias and by_alias[alias] not in self._still_needed
        }
        staying = [alias for alias in statement.names if alias not in new]
        texts = list(dict.fromkeys(text for text in new.values() if text))
        added = self._added[statement]
        texts += [name if name == local else f"{name} as {local}" for name, local in added.items()]
        modules = [one for one in imported_names if one.reach is Reach.MODULE and one.alias in new]
        if modules:
            self._convert_modules(statement, modules, staying)
            return
        if not texts:
            if not staying:
                self._remove_statement(statement)
            return
        edits.replace(
            parsed.start(statement.module), parsed.end(statement.module), self._target.module
        )
        self._replace_names(statement, new, texts)
        if staying:
            module = parsed.text(statement.module)
            names = ", ".join(parsed.text(alias) for alias in staying)
            staying_names = [one.local for one in imported_names if one in self._still_needed]
            remark = missing_text(staying_names, self._target.module)
            line = f"from {module} import {names}"
            self._add_statement(statement, line, f"  {REMARK}{remark}" if staying_names else "")

    def _new_alias(self, imported: Imported) -> str:
        name = self._counterpart(imported)
        if imported.reach is Reach.MODULE:
            return ""
        if name is None:
            # Its uses were removed, with a remark.
            if not imported.uses:
                end = self._parsed.end(imported.alias)
                self._edits.remark_missing(end, imported.local, self._target.module)
            return ""
        local = self._locals[imported]
        return name if name == local else f"{name} as {local}"

    def _replace_names(self, statement: Any, new: dict[Any, str], texts: list[str]) -> None:
        """Replace the old names by the new ones, and keep the layout of the list."""
        parsed, edits = self._parsed, self._edits
        todo = list(texts)
        removed = set()
        last = None
        for index, alias in enumerate(statement.names):
            text = new.get(alias)
            if text in todo:
                todo.remove(text)
                edits.replace(parsed.start(alias), parsed.end(alias), text)
                last = index
            else:
                removed.add(index)
        if last is None:
            # Only new names are left, which replace the first old one.
            first = statement.names[0]
            edits.replace(parsed.start(first), parsed.end(first), todo.pop(0))
            last = 0
            removed.discard(0)
        if todo:
            edits.insert(parsed.end(statement.names[last]), "".join(f", {text}" for text in todo))
        edits.remove_items(parsed.items(statement.names), removed)

    def _convert_modules(self, statement: Any, modules: list[Imported], staying: list[Any]) -> None:
        """Convert ``from torch import profiler``, alone or beside others."""
        parsed, edits = self._parsed, self._edits
        lines = [self._module_import(imported.local) for imported in modules]
        if not staying:
            edits.replace(parsed.start(statement), parsed.end(statement), lines.pop(0))
        else:
            removed = {list(statement.names).index(imported.alias) for imported in modules}
            edits.remove_items(parsed.items(statement.names), removed)
        for line in lines:
            self._add_statement(statement, line)

    def _module_import(self, local: str) -> str:
        package, _, name = self._target.module.rpartition(".")
        if package in {"", "stepscope"}:
            return f"import {self._target.module} as {local}"
        return f"from {package} import {name}" + ("" if name == local else f" as {local}")

    def _remove_statement(self, statement: Any) -> None:
        parsed, edits = self._parsed, self._edits
        start, end = parsed.start(statement), parsed.end(statement)
        body = getattr(parsed.parent(parsed.parent(statement)), "body", ())
        if edits.is_alone(start, end) and isinstance(body, tuple | list) and len(body) > 1:
            edits.remove(start, end)
        else:
            edits.replace(start, end, "pass")

    def _add_statement(self, statement: Any, text: str, comment: str = "") -> None:
        parsed, edits = self._parsed, self._edits
        end = parsed.end(statement)
        if edits.is_alone(parsed.start(statement), end):
            edits.add_line(end, text + comment)
        else:
            edits.insert(end, f"; {text}")


def _join(module: str, name: str) -> str:
    return f"{module}.{name}" if name else module


def _root(node: Node) -> Node:
    while isinstance(node, cst.Attribute):
        node = node.value
    return node
