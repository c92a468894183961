"""Changes of slurm.conf on a real Slurm, held against what what-if says; made-up records."""

from __future__ import annotations

import gzip
import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from bench.node_hours.change import sent_under
from bench.node_hours.changed_settings import main
from bench.node_hours.effect_on_cell import EffectOnCell
from bench.node_hours.load import NodeJob
from bench.node_hours.machine import cluster_plan
from bench.node_hours.replay import CONTROLLER_LOG
from slurm_rl_plugin.machine_files.reader import read_machine
from tests.real.cluster_files import ClusterPlan, write_slurm_conf
from tests.real.slurm_releases import RELEASES
from tests.unit.bench.test_node_hours_fidelity import LOG

RELEASE = RELEASES["26.05"]
PLAN = cluster_plan(420.0)
LIMIT = "partition gpu MaxTime=2"
#: One GPU job of g1, which has two GPUs.
JOB = NodeJob(
    submit=0.0,
    seconds=100.0,
    minutes=3,
    nodes=1,
    tasks=1,
    memory=20000,
    gpus=2,
    feature="V100",
    exclusive=False,
    partition="gpu",
    interactive=False,
    user="alice",
)


def written(folder: Path, plan: ClusterPlan) -> Path:
    """The configuration of a plan, as the campaign copies it."""
    for name in ("etc", "run"):
        folder.joinpath(name).mkdir(parents=True)
    write_slurm_conf(folder, plan, 20000, (26, 5))
    for path in folder.joinpath("etc").glob("*.conf"):
        path.rename(folder / path.name)
    return folder


def campaign(folder: Path, change: str, *starts: Sequence[int]) -> Path:
    """What the campaign writes: a repetition for each row of starts, a job every 10 s."""
    jobs = [replace(JOB, submit=10.0 * place) for place in range(len(starts[0]))]
    sent = sent_under(change, PLAN, jobs, RELEASE)
    for number, row in enumerate(starts):
        repetition = written(folder / f"rep{number + 1}", sent.plan)
        repetition.joinpath(f"{CONTROLLER_LOG}.gz").write_bytes(gzip.compress(LOG.encode()))
        record = {
            "change": change,
            "places": list(sent.places),
            "jobs": [_recorded(place, sent.jobs[place], start) for place, start in enumerate(row)],
        }
        repetition.joinpath("jobs.json").write_text(json.dumps(record))
    return folder


def _recorded(place: int, job: NodeJob, start: int) -> dict[str, Any]:
    submit = 1000 + round(job.submit)
    outcome = {"submit": submit, "eligible": submit, "start": 1000 + start, "end": 1100 + start}
    asked = {name: getattr(job, name) for name in NodeJob.__slots__}
    return {**asked, "number": place + 1, "outcome": {"state": "COMPLETED", **outcome}}


def test_a_change_of_settings_stands_in_the_real_slurm_conf(tmp_path: Path) -> None:
    words = "PriorityFavorSmall=YES; schedulerparameters+=bf_max_job_test=20"
    sent = sent_under(words, PLAN, [JOB], RELEASE)
    before, after = (
        written(tmp_path / name, plan).joinpath("slurm.conf").read_text().splitlines()
        for name, plan in (("before", PLAN), ("after", sent.plan))
    )
    assert (list(sent.jobs), list(sent.places), sent.sentences) == ([JOB], [0], [])
    assert "PriorityFavorSmall=YES" in after
    assert len(after) == len(before)  # in place of what was there, not beside it
    machine = read_machine(tmp_path / "after")
    assert machine.backfill.most_jobs == 20
    assert machine.weights.favours_small


def test_a_limit_of_a_partition_sends_jobs_as_what_if_says() -> None:
    longer, elsewhere = replace(JOB, seconds=150.0), replace(JOB, partition="general-compute")
    sent = sent_under(LIMIT, PLAN, [JOB, longer, elsewhere], RELEASE)
    assert list(sent.places) == [0, 1, 2]
    assert sent.jobs[0] == replace(JOB, minutes=2)  # ran no longer, so it asks for that
    assert sent.jobs[1] == replace(longer, partition="general-compute")
    assert sent.jobs[2] == elsewhere
    assert sent.plan.partitions[2].startswith("PartitionName=gpu Nodes=g[1-1] MaxTime=2 ")
    assert [each.split(":")[0] for each in sent.sentences] == ["partition gpu now allows 2 minutes"]


def test_a_job_that_no_node_of_another_partition_holds_ends_at_the_limit() -> None:
    held_by_debug_alone = replace(JOB, partition="debug", feature="P100", seconds=150.0)
    sent = sent_under("partition debug MaxTime=2", PLAN, [held_by_debug_alone, JOB], RELEASE)
    assert list(sent.places) == [0, 1]
    assert sent.jobs == [replace(held_by_debug_alone, minutes=2, seconds=120.0), JOB]
    assert "1 end there" in sent.sentences[0]


def test_a_change_of_nodes_is_refused() -> None:
    with pytest.raises(ValueError, match="only settings and partitions"):
        sent_under("node n1 State=DOWN", PLAN, [JOB], RELEASE)


def test_effects_are_told_beside_those_of_what_if(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    one_by_one = [1, 103, 205]
    base = campaign(tmp_path / "base", "", one_by_one, [1, 104, 205])
    changed = campaign(tmp_path / "limit", LIMIT, one_by_one)
    assert main([str(base), str(changed)]) == 0
    printed = capsys.readouterr().out
    assert f"{LIMIT}: EFFECT, REAL, SIMULATED, INTERVAL, CHANCE" in printed
    found = json.loads(base.joinpath("changed-settings.json").read_text())
    cell = found["cells"][""]["all gpu"]
    assert cell["real"] == [pytest.approx(93.0), pytest.approx(280 / 3)]
    assert cell["agrees"] == [True, True]
    effect = found["effects"][LIMIT]["all gpu"]
    assert (effect["jobs"], effect["ci95"]) == (3, None)  # too few stretches for an interval
    assert effect["real"] == pytest.approx(-1 / 6)
    assert effect["chance"] == pytest.approx(1 / 3)
    assert effect["simulated"] == pytest.approx(0.0)
    assert (effect["sign"], effect["within"], effect["sure_sign"]) == (True, None, None)


def test_verdicts_know_chance_and_intervals() -> None:
    cell = EffectOnCell(
        jobs=9, base=100.0, real=30.0, simulated=12.0, ci95=(5.0, 20.0), chance=40.0
    )
    assert cell.verdicts() == {
        "sign": True,
        "sign_beyond_chance": None,
        "sure_sign": True,
        "within": False,
        "near": False,
    }
    opposite = replace(cell, real=-1.5, ci95=(-2.0, 20.0), chance=1.0).verdicts()
    assert (opposite["sign"], opposite["sign_beyond_chance"]) == (False, False)
    assert (opposite["sure_sign"], opposite["within"], opposite["near"]) == (None, True, True)
    assert replace(cell, real=0.9, simulated=-0.9).verdicts()["sign"]


def test_a_folder_without_a_campaign_is_refused(tmp_path: Path) -> None:
    with pytest.raises(SystemExit, match=r"has no rep1/jobs\.json"):
        main([str(tmp_path), str(tmp_path)])
