"""The verbs: a file each, which is imported when its verb is called, and a line here."""

from __future__ import annotations

from importlib import import_module

from stepscope.cli.base.command import Command

# In the order of `stepscope --help`.
_PLACES = {
    "run": "run:Run",
    "try": "try_:Try",
    "summary": "summary:Summary",
    "report": "report:MakeReport",
    "view": "view:View",
    "diff": "diff:DiffTraces",
    "gate": "gate:Gate",
    "history": "history:ShowHistory",
    "ps": "ps:Ps",
    "top": "top:Top",
    "capture": "capture:Capture",
    "attach": "attach:Attach",
    "export": "export:Export",
    "info": "info:Info",
    "sql": "sql:Sql",
    "scrub": "scrub:Scrub",
    "mcp": "mcp:Mcp",
    "migrate": "migrate:Migrate",
    "device-peaks": "device_peaks:DevicePeaks",
}


def own_verb(name: str) -> Command | None:
    """Return the verb of that name; None if it is not one of Stepscope's own."""
    if name not in _PLACES:
        return None
    module, _, class_name = _PLACES[name].partition(":")
    verb: Command = getattr(import_module(f"{__name__}.{module}"), class_name)()
    return verb


def own_verbs() -> list[Command]:
    return [verb for name in _PLACES if (verb := own_verb(name)) is not None]
