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


def verdict(judgement: Judgement) -> str:
    if judgement.ok:
        if not judgement.checks:
            return "No rule applies to what was recorded."
        better = sum(check.outcome is Outcome.BETTER for check in judgement.checks)
        more = f", {better} better than the baseline" if better else ""
        return f"{count_text(len(judgement.checks), 'rule')} checked, none is broken{more}."
    words = ", ".join(check.words for check in judgement.failed)
    return (
        f"{count_text(len(judgement.failed), 'rule')} of {len(judgement.checks)} broken: {words}."
    )


def judgement_text(judgement: Judgement) -> str:
    """Return the verdict and every rule, broken ones with the reason."""
    lines = [verdict(judgement), ""]
    if judgement.checks:
        cells = [[printable(cell) for cell in _cells(check)] for check in judgement.checks]
        columns = [
            Column(heading, [row[i] for row in cells], is_text=i == 0)
            for i, heading in enumerate(_HEADINGS)
        ]
        lines += [*text_lines(columns, _WIDEST), ""]
    lines += [printable(line) for line in _reasons(judgement)]
    return "\n".join(lines).rstrip("\n")


def judgement_markdown(judgement: Judgement, link: str = "") -> str:
    sign = "✅" if judgement.ok else "❌"
    lines = [f"### {sign} stepscope gate: {markdown(verdict(judgement))}", ""]
    if judgement.checks:
        lines += ["| rule | before | now | change | allowed | |", "|---|--:|--:|--:|--:|---|"]
        for check in judgement.checks:
            cells = map(markdown, _cells(check))
            lines.append(f"| {' | '.join(cells)} |")
        lines.append("")
    lines += [f"- {markdown(line.strip())}" for line in _reasons(judgement)]
    if link:
        lines += ["", f"The page: `{link}`"]
    return "\n".join(lines) + "\n"


def _cells(check: Check) -> tuple[str, ...]:
    return (
        *(check.words, check.before, check.after, check.change, check.allowed),
        _WORDS[check.outcome],
    )


def _reasons(judgement: Judgement) -> Iterator[str]:
    for check in judgement.failed:
        yield f"{check.words}: {check.why}"
        if check.guilty:
            yield f"  mostly {check.guilty}"
    for check in judgement.checks:
        if check.outcome is Outcome.UNKNOWN and check.why:
            yield f"{check.words}: unknown; {check.why}"
    for note in judgement.notes:
        yield f"note: {note}"
