"""The tables of ``docs/sql.md``."""

from __future__ import annotations

from stepscope.query.views import VIEWS


def markdown() -> str:
    parts = []
    for view in VIEWS:
        rows = [f"| `{column}` | {meaning} |" for column, meaning in view.columns.items()]
        head = [f"### {view.name}", "", view.meaning, "", "| column | meaning |", "|---|---|"]
        parts.append("\n".join([*head, *rows]))
    return "\n\n".join(parts)
