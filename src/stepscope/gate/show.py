"""A judgement as text and as Markdown."""

from __future__ import annotations

from collections.abc import Iterator

from stepscope.gate.model import Check, Judgement, Outcome
from stepscope.text.layout import Column, markdown, printable, text_lines
from stepscope.units import count_text

_WORDS = {
    Outcome.PASSED: "ok",
    Outcome.FAILED: "FAILED",
    Outcome.UNKNOWN: "unknown",
    Outcome.BETTER: "better",
}
_HEADINGS = ("", "before", "now", "change", "allowed", "")
_WIDEST = 60


def verdict(found: Judgement) -> str:
    if found.ok:
        if not found.checks:
            return "No rule applies to what was recorded."
        better = sum(each.outcome is Outcome.BETTER for each in found.checks)
        more = f", {better} better than the baseline" if better else ""
        return f"{count_text(len(found.checks), 'rule')} checked, none is broken{more}."
    words = ", ".join(each.words for each in found.failed)
    return f"{count_text(len(found.failed), 'rule')} of {len(found.checks)} broken: {words}."


def judgement_text(found: Judgement) -> str:
    """Return the verdict and every rule, broken ones with the reason."""
    lines = [verdict(found), ""]
    if found.checks:
        cells = [[printable(cell) for cell in _cells(check)] for check in found.checks]
        columns = [
            Column(heading, [row[i] for row in cells], is_text=i == 0)
            for i, heading in enumerate(_HEADINGS)
        ]
        lines += [*text_lines(columns, _WIDEST), ""]
    lines += [printable(line) for line in _reasons(found)]
    return "\n".join(lines).rstrip("\n")


def judgement_markdown(found: Judgement, link: str = "") -> str:
    sign = "✅" if found.ok else "❌"
    lines = [f"### {sign} stepscope gate: {markdown(verdict(found))}", ""]
    if found.checks:
        lines += ["| rule | before | now | change | allowed | |", "|---|--:|--:|--:|--:|---|"]
        for check in found.checks:
            cells = map(markdown, _cells(check))
            lines.append(f"| {' | '.join(cells)} |")
        lines.append("")
    lines += [f"- {markdown(line.strip())}" for line in _reasons(found)]
    if link:
        lines += ["", f"The page: `{link}`"]
    return "\n".join(lines) + "\n"


def _cells(check: Check) -> tuple[str, ...]:
    return (
        *(check.words, check.before, check.after, check.change, check.allowed),
        _WORDS[check.outcome],
    )


def _reasons(found: Judgement) -> Iterator[str]:
    for check in found.failed:
        yield f"{check.words}: {check.why}"
        if check.guilty:
            yield f"  mostly {check.guilty}"
    for check in found.checks:
        if check.outcome is Outcome.UNKNOWN and check.why:
            yield f"{check.words}: unknown; {check.why}"
    for note in found.notes:
        yield f"note: {note}"
