"""The end of a trial says what was measured, and calls nothing useless that was not measured."""

from __future__ import annotations

from pathlib import Path

from stepscope.remedies.equality import Equality, Kind
from stepscope.remedies.intervals import Gain
from stepscope.remedies.remedy import Change
from stepscope.remedies.rounds import Outcome
from stepscope.remedies.text import as_json, as_text
from stepscope.remedies.trial import UNCONFIRMED, Result, Tried

TIMES = "\N{MULTIPLICATION SIGN}"
EXACT = Equality(Kind.EXACT, 0.0, 40)


def tried(title: str, ratio: float, verdict: str, **facts: object) -> Tried:
    gain = Gain(ratio, ratio * 0.9, ratio * 1.1, 20)
    outcome = Outcome(title, gain, EXACT, 0.1, 0.0, {}, 0)
    change = Change(title, "train.py:7", (), 0.5, "optimizers")
    return Tried(change, outcome._replace(**facts), True, verdict)  # type: ignore[arg-type]


def result(*changes: Tried, **facts: object) -> Result:
    chosen = [one for one in changes if one.verdict == "helps"]
    made = Result(
        unit="optimizer:0",
        plain_s=0.278,
        tried=changes,
        chosen=chosen,
        gain=Gain(6.6, 6.4, 6.7, 30) if chosen else None,
        equality=EXACT if chosen else None,
        noise=Gain(1.0, 0.97, 1.04, 30),
        patch="--- a/train.py\n" if chosen else "",
        texts={},
        steps=0,
        start_s=0.0,
        seconds=145.0,
    )
    return made._replace(**facts)  # type: ignore[arg-type]


def text_of(shown: Result) -> list[str]:
    return as_text(shown, "train.py", Path("try.diff")).splitlines()


def test_a_gain_is_told_with_its_interval_its_cost_and_its_patch() -> None:
    remembered = tried("remember load", 6.56, "helps", remembered_bytes=220 << 20)
    assert text_of(result(remembered, tried("SGD(..., fused=True)", 0.99, "no gain"))) == [
        f"train.py: 278 ms a step -> 42.1 ms, measured (6.60 {TIMES}, 95 %: 6.40 to 6.70), "
        "results exact, 1 change of 2 tried in 2 min 25 s",
        f"  1. remember load (train.py:7)    6.56 {TIMES}   exact   needs 220 MiB",
        f"  not helping: SGD(..., fused=True) (train.py:7) (0.99 {TIMES}, 0.89 to 1.09)",
        "  the program beside itself: 0.97 to 1.04",
        "patch: try.diff   (stepscope try --apply writes it)",
    ]


def test_what_helped_once_and_was_not_measured_again_is_no_gain_and_not_useless() -> None:
    lines = text_of(result(tried("remember load", 6.5, UNCONFIRMED), was_stopped=True))
    assert lines[0] == (
        "train.py: 278 ms a step; no gain is shown, 1 tried in 2 min 25 s, interrupted"
    )
    assert lines[1].startswith(f"  not confirmed in time: remember load (train.py:7) (6.50 {TIMES}")


def test_a_change_that_starts_later_says_when_it_pays() -> None:
    compiled = tried("torch.compile of Net", 2.0, "helps", extra_start_s=10.6)
    assert "starts 10.6 s later, pays after 106 steps" in text_of(result(compiled))[1]


def test_the_same_as_json() -> None:
    document = as_json(result(tried("remember load", 6.5, "helps")), "train.py")
    assert document["gain"] == {"ratio": 6.6, "low": 6.4, "high": 6.7, "windows": 30}
    assert document["tried"][0]["is_in_patch"]
