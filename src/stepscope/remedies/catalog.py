"""The remedies: a class each, and one line in the registry."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from stepscope.remedies.edits import Edit, NoPlaceError
from stepscope.remedies.remedy import COMPILED, REMEDIES, THREADS, Change, Facts, place_text

_LEAST_SHARE = 0.05  # of the time, for a function to be remembered
_FUSED = {"Adam", "AdamW", "SGD", "Adagrad"}
_DOUBLE = {"float64": "float32", "double": "float32"}


@REMEDIES.register
class Remember:
    """Keep the results of a function whose inputs come again."""

    def changes(self, facts: Facts) -> Iterator[Change]:
        for function in facts.survey["functions"]:
            share = function["seconds"] / facts.seconds
            if function["obstacle"] or not function["repeats"] or share < _LEAST_SHARE:
                continue
            source = facts.sources[function["file"]]
            definition = source.function_at(function["line"])
            is_cached = any("cache" in ast.unparse(item) for item in definition.decorator_list)
            if is_cached or source.uses("remember"):
                continue
            line = "from stepscope.remember import remember"
            edits = (
                source.insert_after_imports(line),
                source.insert_before(definition, "@remember"),
            )
            saved = share * function["repeated_seconds"] / (function["looked_seconds"] or 1)
            place = place_text(function["file"], definition.lineno)
            yield Change(f"remember {function['name']}", place, edits, saved, "remembered")


@REMEDIES.register
class FusedOptimizer:
    """Update all parameters in one call."""

    def changes(self, facts: Facts) -> Iterator[Change]:
        for made in facts.constructed("optimizer"):
            options, name = made["options"], made["class"]
            if options.get("fused") or options.get("foreach"):
                continue
            source = facts.sources[made["site"][0]]
            call = source.call_at(made["site"])
            word = "fused" if name in _FUSED else "foreach"
            edit = source.set_keyword(call, word, "True")
            place = place_text(source.path, call.lineno)
            yield Change(f"{name}(..., {word}=True)", place, (edit,), 0.2, "optimizers")


@REMEDIES.register
class LoaderWorkers:
    """Load batches in other processes, which stay from epoch to epoch."""

    def changes(self, facts: Facts) -> Iterator[Change]:
        for made in facts.constructed("loader"):
            options = made["options"]
            source = facts.sources[made["site"][0]]
            call = source.call_at(made["site"])
            place = place_text(source.path, call.lineno)
            stays = source.set_keyword(call, "persistent_workers", "True")
            if options.get("num_workers"):
                if not options.get("persistent_workers"):
                    title = "DataLoader(..., persistent_workers=True)"
                    yield Change(title, place, (stays,), 0.4, "loaders")
                continue
            count = max(1, min(4, facts.survey["cores"]))
            workers = source.set_keyword(call, "num_workers", str(count))
            if workers.start == stays.start:
                text = workers.text + stays.text
                edits: tuple[Edit, ...] = (workers._replace(text=text),)
            else:
                edits = (workers, stays)
            title = f"DataLoader(..., num_workers={count}, persistent_workers=True)"
            yield Change(title, place, edits, 0.35, "loaders")


@REMEDIES.register
class Threads:
    """Use another number of threads for operators."""

    def changes(self, facts: Facts) -> Iterator[Change]:
        if not facts.survey["is_torch"]:
            return
        used, cores = facts.survey["threads"], facts.survey["cores"]
        sites = [
            call["site"] for call in facts.survey["calls"] if "set_num_threads" in call["name"]
        ]
        for number in dict.fromkeys((cores, 1)):
            if number == used:
                continue
            title = f"torch.set_num_threads({number})"
            if sites:
                source = facts.sources[sites[0][0]]
                call = source.call_at(sites[0])
                edit = Edit(source.path, *source.bounds(call.args[0]), str(number))
                place = place_text(source.path, call.lineno)
            else:
                edit = facts.inserted_on_top("torch", title)
                place = place_text(facts.main, 1)
            yield Change(title, place, (edit,), 0.3 if used > cores else 0.1, THREADS)


@REMEDIES.register
class FrozenGarbage:
    """Take what exists before the loop out of the collector's work."""

    def changes(self, facts: Facts) -> Iterator[Change]:
        share = facts.survey["gc_seconds"] / facts.seconds
        loop = facts.loop()
        if share < 0.02 or loop is None:
            return
        path, statement = loop
        source = facts.sources[path]
        edits = [source.insert_before(statement, "gc.collect()", "gc.freeze()")]
        if not source.imports("gc"):
            edits.append(source.insert_after_imports("import gc"))
        place = place_text(path, statement.lineno)
        yield Change("gc.freeze() before the loop", place, tuple(edits), share, "frozen")


@REMEDIES.register
class NoCollection:
    """Leave the collector to decide when it runs."""

    def changes(self, facts: Facts) -> Iterator[Change]:
        for call in facts.calls("gc.collect"):
            if call["count"] < 3:
                continue
            source = facts.sources[call["site"][0]]
            node = source.call_at(call["site"])
            text = "0" if source.parent_statement(node) is None else "pass"
            edit = Edit(source.path, *source.bounds(node), text)
            place = place_text(source.path, node.lineno)
            share = call["seconds"] / facts.seconds
            yield Change("no gc.collect() in the loop", place, (edit,), share, "collections")


@REMEDIES.register
class NoGradients:
    """Record no graph where nothing is trained."""

    def changes(self, facts: Facts) -> Iterator[Change]:
        for model in facts.survey["models"]:
            if model["without_training"] < 0.8 * model["calls"]:
                continue
            for site in model["frames"]:
                source = facts.sources[site[0]]
                function = source.function_around(site[1])
                if function is None or ".backward(" in source.segment(function):
                    continue
                edits = [source.insert_before(function, "@torch.no_grad()")]
                if not source.imports("torch"):
                    edits.append(source.insert_after_imports("import torch"))
                title = f"no gradients in {function.name}"
                place = place_text(source.path, function.lineno)
                yield Change(title, place, tuple(edits), 0.3, "calls_with_gradients")
                break


@REMEDIES.register
class SinglePrecision:
    """Compute in float32 what the program computes in float64."""

    def changes(self, facts: Facts) -> Iterator[Change]:
        models = facts.survey["models"]
        if not any("torch.float64" in model["dtypes"] for model in models):
            return
        edits = [edit for path in self._files(facts) for edit in self._edits(facts, path)]
        for model in models:
            if "torch.float64" in model["inputs"] and model["site"]:
                source = facts.sources[model["site"][0]]
                call = source.call_at(model["site"])
                for argument, dtype in zip(call.args, model["inputs"], strict=False):
                    if dtype == "torch.float64":
                        end = source.bounds(argument)[1]
                        edits.append(Edit(source.path, end, end, ".float()"))
        if edits:
            place = f"{len(edits)} places"
            yield Change("float32 for float64", place, tuple(edits), 0.5, "dtypes")

    @staticmethod
    def _files(facts: Facts) -> list[str]:
        return [path for path in facts.survey["files"] if Path(path).is_file()]

    @staticmethod
    def _edits(facts: Facts, path: str) -> Iterator[Edit]:
        source = facts.sources[path]
        for node in ast.walk(source.tree):
            if isinstance(node, ast.Attribute):
                end = source.bounds(node)[1]
                start = end - len(node.attr)
                if isinstance(node.value, ast.Name) and node.value.id == "torch":
                    if node.attr in _DOUBLE:
                        yield Edit(path, start, end, _DOUBLE[node.attr])
                elif node.attr == "double":
                    yield Edit(path, start, end, "float")


def _before_loop(facts: Facts, statement: str) -> tuple[tuple[Edit, ...], str]:
    """Insert a statement about the model before the loop, if the loop's function calls it."""
    model, loop = facts.model, facts.loop()
    if model is None or loop is None or not model["site"]:
        raise NoPlaceError("the model is not called from the loop")
    path, node = loop
    source = facts.sources[path]
    if model["site"][0] != path or source.loop_around(model["site"][1]) is not node:
        raise NoPlaceError("the model is not called from the loop")
    called: Any = source.call_at(model["site"]).func
    if not isinstance(called, ast.Name | ast.Attribute):
        raise NoPlaceError("the model has no name")
    text = statement.format(model=source.segment(called))
    return (source.insert_before(node, text),), place_text(path, node.lineno)


@REMEDIES.register
class Compile:
    """Compile the model's forward pass, and with it the backward pass."""

    def changes(self, facts: Facts) -> Iterator[Change]:
        model = facts.model
        if model is None or model["seconds"] < _LEAST_SHARE * facts.seconds:
            return
        if model["forward"] is None:
            edits, place = _before_loop(facts, "{model}.compile()")
        else:
            path, line = model["forward"]
            source = facts.sources[path]
            definition = source.function_at(line)
            inserted = [source.insert_before(definition, "@torch.compile")]
            if not source.imports("torch"):
                inserted.append(source.insert_after_imports("import torch"))
            edits, place = tuple(inserted), place_text(path, definition.lineno)
        yield Change(f"torch.compile of {model['class']}", place, edits, 0.25, COMPILED)
