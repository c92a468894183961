"""What is predicted of a job as it starts, and what its end teaches; by hand."""

from dataclasses import replace

import numpy as np
import pytest

from slurm_rl_plugin.features.history.columns import ForetoldRuns, foretold_now, known_past
from slurm_rl_plugin.features.history.past_runs import PastRuns
from slurm_rl_plugin.features.history.run_history import BOUNDS
from slurm_rl_plugin.features.history.run_prediction import (
    PARTS,
    SHARES,
    fill_shares,
    run_time_at,
)
from tests.unit.features.run_tables import Run, snapshot_of

FIRST = Run(1, 0, 4, 3600.0, start=100.0)


def unknown_quantiles(time_limit):
    """Of runs of which nothing is known: 0.12 of them end before each bound."""
    shares = np.empty(SHARES)
    fill_shares(shares, np.full(len(BOUNDS), 0.12))
    return [min(run_time_at(shares, part), time_limit) for part in PARTS]


def started(run, past=None):
    return ForetoldRuns().after(snapshot_of(run.start, running=[run]), past or PastRuns())


def test_a_job_that_starts_is_predicted_by_what_is_known_then():
    known = started(FIRST)
    assert known.lines.shape == (1, 1 + len(PARTS))
    assert known.lines[0].tolist() == pytest.approx([1, *unknown_quantiles(3600.0)])
    runs = [Run(10 + n, 0, 4, 3600.0, 0.0, 5.0) for n in range(9)]
    past = PastRuns().after(snapshot_of(50.0, ended=runs))
    assert (started(FIRST, past).lines[0, 1:] < known.lines[0, 1:]).all()
    second = replace(FIRST, job_id=2)
    again = known.after(snapshot_of(200.0, running=[second, FIRST]), past)
    np.testing.assert_array_equal(again.lines[0], known.lines[0])  # once, as it started
    np.testing.assert_array_equal(again.lines[1, 1:], started(FIRST, past).lines[0, 1:])


@pytest.mark.parametrize(
    ("length", "below"), [(1.0, 1.0), (4e5, 0.0)], ids=["below all", "above all"]
)
def test_an_end_moves_the_shares_that_are_asked_for(length, below):
    known = started(FIRST)
    over = replace(FIRST, end=FIRST.start + length)
    after = known.after(snapshot_of(over.end, ended=[over]), PastRuns())
    assert after.asked == pytest.approx(np.array(PARTS) + 0.005 * (np.array(PARTS) - below))
    assert len(after.lines) == 0
    other = replace(over, job_id=2)  # of which nothing was predicted
    assert known.after(snapshot_of(over.end, ended=[other]), PastRuns()).asked.tolist() == [*PARTS]


def test_shares_that_are_asked_for_choose_the_quantile():
    waiting = snapshot_of(100.0, pending=[FIRST, Run(2, 1, 1, 60.0, 0.0)])
    told = known_past(waiting, waiting.pending.jobs, PastRuns())
    now = foretold_now(told, ForetoldRuns())
    np.testing.assert_allclose(now, [unknown_quantiles(3600.0), unknown_quantiles(60.0)])
    more = foretold_now(told, ForetoldRuns(asked=np.array([0.25, 0.5, 0.75, 0.9, 0.95])))
    np.testing.assert_allclose(more[:, :4], now[:, 1:])
    assert foretold_now(None, ForetoldRuns()).shape == (0, len(PARTS))


def test_memory_keeps_every_bit_and_what_is_behind():
    known = replace(started(FIRST), asked=np.array([0.11, 0.25, 0.5, 0.75, 0.9]))
    back, behind = ForetoldRuns.from_memory(np.concatenate([known.to_memory(), [7.0, 8.0]]))
    np.testing.assert_array_equal(back.lines, known.lines)
    np.testing.assert_array_equal(back.asked, known.asked)
    assert behind.tolist() == [7.0, 8.0]
    for place, value in ((0, 2.0), (1, -1.0), (1, 0.5), (1, 9.0)):
        wrong = known.to_memory()
        wrong[place] = value
        nothing, behind = ForetoldRuns.from_memory(wrong)
        assert (len(nothing.lines), behind) == (0, None)
        assert nothing.asked.tolist() == [*PARTS]
