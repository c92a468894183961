"""What the replay on nodes of several kinds takes of a log, and what it tells of its runs."""

from __future__ import annotations

import gzip
from pathlib import Path
from typing import Any

import pytest

from bench.node_hours.binding import waiting_by_lack
from bench.node_hours.figures import figures_of, noise_of
from bench.node_hours.load import sbatch_options, stretch_of
from bench.node_hours.placement import Placement, node_names, placements_of

LINES = """
-dt 10.50 -e submit_batch_job | -sim-walltime 84805.00 --uid=u1 -J j1 -N 1 -n 32 -t 3-00:00:00 -q q -p general-compute --mem=500G pseudo.job
-dt 11.50 -e submit_batch_job | -sim-walltime 2003.00 --uid=u2 -J j2 -N 30 -n 40 -t 3-00:00:00 -q q -p general-compute --mem=250G pseudo.job
-dt 21.50 -e submit_batch_job | -sim-walltime 100.00 --uid=u2 -J j3 -N 1 -n 12 -t 01:00:00 -q q -p general-compute --mem=32000M --constraint=CPU-Gold-6230 pseudo.job
-dt 31.50 -e submit_batch_job | -sim-walltime 9999.00 --uid=u3 -J j4 -N 1 -n 4 -t 02:00:00 -q q -p general-compute --gres=gpu:1 --gres=gpu:1 pseudo.job
-dt 41.50 -e submit_batch_job | -sim-walltime 1.00 --uid=u3 -J j5 -N 1 -n 32 -t 00:10:00 -q q -p debug --mem=87G --exclusive pseudo.job
""".lstrip()  # noqa: E501


@pytest.fixture
def log(tmp_path: Path) -> Path:
    path = tmp_path / "week.gz"
    path.write_bytes(gzip.compress(LINES.encode()))
    return path


def test_a_stretch_keeps_requests_and_compresses_times(log: Path) -> None:
    jobs = stretch_of(log, 0, 4, 10.0)  # the second is wider than the machine
    assert [job.partition for job in jobs] == ["large", "general-compute", "gpu", "debug"]
    assert [job.submit for job in jobs] == pytest.approx([0.0, 1.1, 2.1, 3.1])
    assert [job.minutes for job in jobs] == [432, 6, 12, 1]
    # The third's run is cut at its limit in the log, and ends before Slurm would kill it.
    assert [job.seconds for job in jobs] == [8480.5, 10.0, 710.0, 1.0]
    assert [job.interactive for job in jobs] == [False, True, False, True]
    assert [job.user for job in jobs] == ["alice", "bob", "carol", "carol"]
    assert sbatch_options(jobs[0]) == ["--nodes=1", "--partition=large", "--mem=512000M"]
    assert sbatch_options(jobs[1])[-1] == "--constraint=CPU-Gold-6230"
    assert sbatch_options(jobs[2])[-1] == "--gres=gpu:1"
    assert sbatch_options(jobs[3])[-1] == "--exclusive"


def test_a_log_of_too_few_jobs_is_told(log: Path) -> None:
    with pytest.raises(ValueError, match="from job 1 on 3 jobs fit, not 4"):
        stretch_of(log, 1, 4, 10.0)


def test_placements_are_told_node_by_node() -> None:
    told = (
        "JobId=7 JobName=x JOB_GRES=gpu:2 Nodes=g[1-2] CPU_IDs=0-2,9 Mem=500 GRES= MinCPUsNode=1\n"
        "JobId=8 JobName=x JOB_GRES=(null) Nodes=a1 CPU_IDs=0-6 Mem=7 GRES= Nodes=b[2,4] "
        "CPU_IDs=3 Mem=1 GRES=\nJobId=9 JobName=waiting ReqNodeList=(null)\n"
    )
    found = placements_of(told)
    assert found[7] == [
        Placement(node=name, processors=4, memory=500, gpus=1) for name in ("g1", "g2")
    ]
    assert [(each.node, each.processors) for each in found[8]] == [("a1", 7), ("b2", 1), ("b4", 1)]
    assert found[9] == []
    assert node_names("gn[1,3-4],b2") == ["gn1", "gn3", "gn4", "b2"]


def run_of(*starts: int) -> dict[str, Any]:
    """Jobs of 20000 MB on g1's partition, a GPU each, submitted at 0, that run for 100 s."""
    asked = {"nodes": 1, "tasks": 1, "memory": 20000, "gpus": 1, "feature": "", "exclusive": False}
    placed = [{"node": "g1", "processors": 1, "memory": 20000, "gpus": 1}]
    times = [{"submit": 0, "eligible": 0, "start": at, "end": at + 100} for at in starts]
    said = {"state": "COMPLETED", "flags": "SchedMain", "placed": placed}
    job = {**asked, "seconds": 99.0, "partition": "gpu", "interactive": False}
    return {"late": 0.0, "jobs": [job | {"outcome": said | each} for each in times]}


def test_what_bound_is_told() -> None:
    nothing = {"processors": 0.0, "memory": 0.0, "turn": 0.0}
    gpus = {**nothing, "gpus": 100.0, "processors_free": 100.0}
    assert waiting_by_lack(run_of(0, 0, 100)["jobs"]) == gpus
    turn = {**nothing, "gpus": 0.0, "processors_free": 0.0, "turn": 50.0}
    assert waiting_by_lack(run_of(0, 50)["jobs"]) == turn


def test_figures_and_the_noise_among_repetitions() -> None:
    figures = figures_of(run_of(0, 0, 90))
    assert figures["mean_wait"] == pytest.approx(30.0)
    assert figures["added_to_a_run"] == pytest.approx(1.0)
    assert figures["cells"]["batch gpu"] == {"jobs": 3, "mean_wait": pytest.approx(30.0)}
    noise = noise_of([run_of(0, 0, 90), run_of(0, 0, 110)])
    assert noise["cells"]["all all"] == [pytest.approx(0.2)]
    assert noise["median_start_difference"] == [0.0]
