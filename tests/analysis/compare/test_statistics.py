"""Two sets of step times are compared as the runs that they are."""

from __future__ import annotations

import numpy as np
import pytest

from stepscope.analysis.compare.oddities import block_length, drift, two_kinds, warm_up
from stepscope.analysis.compare.resampling import two_sided_p, two_sided_quantile
from stepscope.analysis.compare.statistics import (
    Test,
    Verdict,
    compare_samples,
    corrected,
    holm,
)


def runs(
    level: float, count: int, seed: int, spread: float = 0.004, noise: float = 0.02
) -> list[np.ndarray]:
    """Make runs that differ by ``spread``, of steps that differ by ``noise``."""
    generator = np.random.default_rng(seed)
    shifts = np.exp(generator.normal(0, spread, count))
    return [level * shift * np.exp(generator.normal(0, noise, 200)) for shift in shifts]


def test_a_slower_program_is_found_with_an_interval_around_the_truth() -> None:
    comparison = compare_samples(runs(10, 5, 1), runs(10.5, 5, 2))
    assert comparison.verdict is Verdict.SLOWER
    assert comparison.test is Test.RUNS
    assert comparison.low < 0.05 < comparison.high
    assert comparison.p == pytest.approx(2 / 252)
    assert compare_samples(runs(10.5, 5, 2), runs(10, 5, 1)).verdict is Verdict.FASTER


def test_the_same_program_is_not_called_changed() -> None:
    alarms = [
        compare_samples(runs(10, 5, 2 * i), runs(10, 5, 2 * i + 1)).is_real for i in range(60)
    ]
    assert sum(alarms) <= 1


def test_runs_that_differ_more_than_the_sides_are_noise() -> None:
    """Thousands of steps do not help where the runs themselves differ."""
    comparison = compare_samples(runs(10, 5, 1, spread=0.1), runs(10.3, 5, 2, spread=0.1))
    assert comparison.verdict is Verdict.NOISE


def test_one_run_a_side_says_what_it_cannot_know() -> None:
    small = compare_samples(runs(10, 1, 1), runs(10.5, 1, 2))
    assert small.verdict is Verdict.UNKNOWN
    assert small.test is Test.BLOCKS
    assert "one run per side" in small.remarks[0]
    assert compare_samples(runs(10, 1, 1), runs(13, 1, 2)).verdict is Verdict.SLOWER


def test_a_busy_machine_is_no_slower_program() -> None:
    """Other work makes some steps of the second side much longer, and leaves the others."""
    generator = np.random.default_rng(3)
    after = runs(10, 5, 4)
    for run in after:
        run[generator.random(len(run)) < 0.6] *= 1.5
    assert not compare_samples(runs(10, 5, 5), after).is_real


def test_a_change_that_does_not_matter_is_none() -> None:
    before, after = (runs(level, 5, 1, spread=1e-4, noise=2e-3) for level in (10, 10.03))
    assert compare_samples(before, after).verdict is Verdict.SAME
    assert compare_samples(before, after, least_effect=0.001).verdict is Verdict.SLOWER


def test_it_is_deterministic() -> None:
    before, after = runs(10, 3, 1), runs(10.2, 3, 2)
    assert compare_samples(before, after) == compare_samples(before, after)


def test_too_few_steps_say_nothing() -> None:
    for before, after in (([], []), ([[1.0, 2.0]], [[]]), ([[0.0] * 9], [[0.0] * 9])):
        assert compare_samples(before, after).verdict is Verdict.UNKNOWN
    with pytest.raises(ValueError, match="not a number"):
        compare_samples([[float("nan")]], [[1.0]])
    with pytest.raises(ValueError, match=r"0\.01 for 1 %"):
        compare_samples([], [], least_effect=5)


def test_many_comparisons_are_corrected_for() -> None:
    assert holm([0.01, 0.04, 0.03]) == pytest.approx([0.03, 0.06, 0.06])
    assert holm([]) == []
    real = compare_samples(runs(10, 5, 1), runs(10.5, 5, 2))
    assert [item.is_real for item in corrected([real] * 3)] == [False] * 3


def test_odd_samples_are_described() -> None:
    generator = np.random.default_rng(0)
    steady = 10 + generator.normal(0, 0.1, 200)
    assert not drift(steady)
    assert not two_kinds(steady)
    assert block_length(steady) == 1
    assert warm_up(np.concatenate([[30.0, 20.0, 13.0], steady])) == 3
    assert "longer during the run: +" in drift(steady + np.linspace(0, 2, 200))
    assert "two kinds" in two_kinds(np.where(np.arange(200) % 4, steady, steady * 1.5))
    assert block_length(np.repeat(generator.normal(0, 1, 20), 10)) > 4


def test_student_has_the_values_of_the_tables() -> None:
    assert two_sided_p(2.776, 4) == pytest.approx(0.05, abs=1e-4)
    assert two_sided_p(3.182, 3) == pytest.approx(0.05, abs=1e-4)
    assert two_sided_quantile(0.95, 8) == pytest.approx(2.306, abs=1e-3)
    assert two_sided_quantile(0.95) == pytest.approx(1.96, abs=1e-2)
