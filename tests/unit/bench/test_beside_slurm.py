"""The load of `tests.bench.live` and the figures that it computes, without a cluster."""

from __future__ import annotations

import json
from argparse import Namespace
from collections import Counter
from datetime import datetime
from pathlib import Path

import pytest

from tests.bench.live.beside_slurm import cell, figures_of, kept_figures, table
from tests.bench.live.load_and_figures import (
    DrawnJob,
    Moments,
    Newcomer,
    drawn_backlog,
    moments_of,
    newcomer,
    newcomer_figures,
    newcomers_of,
    service_over_share,
)
from tests.real.load import Outcome


def test_one_account_of_five_floods_and_a_seed_draws_the_same_jobs() -> None:
    jobs = drawn_backlog(665, 1)
    counts = Counter(job.account for job in jobs)
    assert counts == {"physics": 110, "chem": 75, "bio": 55, "geo": 25, "astro": 400}
    work = Counter[str]()
    for job in jobs:
        work[job.account] += job.cpus * job.seconds
    assert work["astro"] / work.total() == pytest.approx(0.6, abs=0.05)
    assert jobs == drawn_backlog(665, 1) != drawn_backlog(665, 2)
    assert [job.account for job in jobs] != sorted(job.account for job in jobs)


def test_the_adverse_mix_has_long_wide_jobs_and_a_short_narrow_flood() -> None:
    kinds = {"physics": set[tuple[int, int]](), "astro": set[tuple[int, int]]()}
    for job in drawn_backlog(665, 1, adverse=True):
        kinds.setdefault(job.account, set()).add((job.seconds, job.cpus))
    assert min(kinds["physics"]) == (40, 4)
    assert max(seconds for seconds, _ in kinds["astro"]) == 20
    assert max(cpus for _, cpus in kinds["astro"]) == 4
    assert (5, 8) in kinds["chem"]


def test_newcomers_take_turns_by_account_and_by_user() -> None:
    jobs = [newcomer(place) for place in range(6)]
    assert [job.account for job in jobs] == ["math", "mech", "civil"] * 2
    assert len({job.user for job in jobs}) == 6
    assert {(job.cpus, job.seconds) for job in jobs} == {(1, 4)}


def job_of(account: str, cpus: int) -> DrawnJob:
    return DrawnJob(account=account, user="ann", cpus=cpus, minutes=5, seconds=10)


def ran(start: int, end: int) -> Outcome:
    return Outcome(submit=0, start=start, end=end, state="COMPLETED", limit=5)


def test_service_counts_within_the_window_and_over_the_shares() -> None:
    jobs = {1: job_of("physics", 4), 2: job_of("astro", 1), 3: job_of("astro", 8)}
    # 4 CPUs for 10 s, of 20 s of 1 CPU the first 10, and none of a job that did not start
    found = service_over_share(jobs, {1: ran(90, 110), 2: ran(190, 210)}, 100.0, 200.0)
    assert found["used"] == pytest.approx(50.0)
    assert found["physics"] == pytest.approx(0.8 / (30 / 75))
    assert found["astro"] == pytest.approx(0.2 / (5 / 75))
    assert found["others"] == pytest.approx(0.8 / (70 / 75))


def at(second: float) -> str:
    return datetime.fromtimestamp(second).isoformat(timespec="milliseconds")


def test_moments_are_read_from_the_logs_of_both_releases() -> None:
    moments = moments_of(
        [
            f"[{at(10)}] _slurm_rpc_submit_batch_job: JobId=7 InitPrio=10850 usec=357",
            f"[{at(10.5)}] _slurm_rpc_submit_batch_job: JobId=8 SLUID=s9BNM InitPrio=1 usec=661",
            f"[{at(12)}] _slurm_rpc_update_job: complete JobId=7 uid=0 usec=260",
            f"[{at(13)}] _slurm_rpc_update_job: complete JobId=7 uid=0 usec=260",
            f"[{at(14.25)}] Launching batch job 7 for UID 1030",
            f"[{at(15)}] Launching batch JobId=8 SLUID=s9BNM for UID 1030",
            f"[{at(16)}] _job_complete: JobId=8 done",
        ]
    )
    assert moments.submitted == {7: 10.0, 8: 10.5}
    assert moments.written == {7: 12.0}
    assert moments.launched == {7: 14.25, 8: 15.0}


def cycle(time: float, *order: int, writes: int = 0) -> list[str]:
    lines = [{"event": "cycle", "time": time, "order": list(order)}]
    lines += [{"event": "write", "time": time, "job": 100 + each} for each in range(writes)]
    return [json.dumps(line) for line in lines]


def test_a_job_has_its_place_by_a_write_a_rank_or_its_start() -> None:
    moments = Moments(
        submitted=dict.fromkeys(range(1, 6), 10.0),
        written={1: 13.0, 4: 40.0},
        launched={1: 20.0, 2: 21.0, 3: 11.0, 4: 15.0},
    )
    audit = [
        *cycle(12.0, 1, 2, 5, writes=2000),  # may have left some for the next cycle
        json.dumps({"event": "experiment", "time": 12.5}),
        *cycle(14.0, 2, writes=3),
    ]
    found = newcomers_of(range(1, 6), moments, audit)
    assert [each.placed for each in found] == [13.0, 14.0, 11.0, 15.0, float("inf")]
    assert [each.read for each in found[:3]] == [12.0, 12.0, float("inf")]


def test_waits_and_their_parts() -> None:
    jobs = [
        Newcomer(submitted=0.0, read=3.0, placed=4.0, launched=6.0),
        Newcomer(submitted=10.0, read=10.5, placed=11.0, launched=12.0),
        Newcomer(submitted=20.0, read=float("inf"), placed=float("inf"), launched=float("inf")),
    ]
    found = newcomer_figures(jobs, 50.0, daemon=True)
    assert (found["wait, median"], found["wait, max"], found["not started"]) == (6.0, 30.0, 1.0)
    assert found["within 2 s"] == pytest.approx(1 / 3)
    assert found["place, median"] == 4.0
    assert found["placed by a start"] == pytest.approx(1 / 3)
    parts = ("submission to reading", "reading to place", "place to start")
    assert [found[part] for part in parts] == [1.75, 0.75, 1.5]  # of the first two
    assert "place, median" not in newcomer_figures(jobs, 50.0, daemon=False)


def test_newcomers_are_told_apart_by_the_end_of_the_first_phase() -> None:
    jobs = [
        {"submitted": begin, "read": begin, "placed": begin, "launched": begin + wait}
        for begin, wait in ((0.0, 8.0), (20.0, 1.0))
    ]
    run = {"newcomers": jobs, "ordered": 15.0, "end": 60.0, "load": [1.5, 2.0], "faults": ["x"]}
    found = figures_of(run, "shipped")
    assert (found["first phase: wait, median"], found["second phase: wait, median"]) == (8.0, 1.0)
    assert (found["load average"], found["faults in the log"]) == (1.5, 1.0)


def test_the_wide_jobs_wait_is_put_over_that_of_the_same_repetition(tmp_path: Path) -> None:
    job = {"submitted": 0.0, "read": 0.0, "placed": 0.0, "launched": 1.0}
    common = {"newcomers": [job], "end": 60.0, "load": [1.0, 1.0], "faults": []}
    for order, waits in {"slurm": (10.0, 20.0), "shipped": (15.0, 10.0)}.items():
        for seed, wait in enumerate(waits, start=1):
            folder = tmp_path / "backlog" / f"{order}-{seed}"
            folder.mkdir(parents=True)
            run = {**common, "wide": wait, "wide started": True, "service": {"used": 6400.0}}
            folder.joinpath("run.json").write_text(json.dumps(run))
    chosen = Namespace(orders=["slurm", "shipped"], repetitions=2, output=tmp_path)
    found = kept_figures(chosen, "backlog")
    assert [each["wide job, wait, over Slurm's"] for each in found["shipped"]] == [1.5, 0.5]
    assert found["shipped"][0]["machine used"] == 0.5


def test_a_table_has_medians_with_intervals_and_a_dash_for_what_is_not_there() -> None:
    assert cell([1.0, 2.0, 9.0]) == "2 [1, 9]"
    assert cell([2.0]) == "2"
    runs = {"slurm": [{"wait": 1.0}], "shipped": [{"wait": 2.0, "place": 3.0}]}
    assert table(runs)[2:] == ["| wait | 1 | 2 |", "| place | - | 3 |"]
