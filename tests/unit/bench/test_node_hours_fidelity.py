"""The simulator of nodes is held against a real Slurm's record of the same jobs."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from bench.node_hours.controller_log import Delays, delays_of
from bench.node_hours.fidelity import as_simulated, compared, main
from bench.node_hours.figures import starts_of
from bench.node_hours.machine import cluster_plan
from bench.node_hours.replay import CONTROLLER_LOG
from slurm_rl_plugin.machine_files.reader import read_machine
from tests.real.cluster_files import write_slurm_conf

#: Of slurmctld 26.05: two submissions, each seen in the next second; an end, handed over in the
#: second but one; an end that no look follows. The first pass is told to be of the second before.
LOG = """
[2026-11-25T13:00:07.291] debug:  priority/multifactor: init: Priority MULTIFACTOR plugin loaded
[2026-11-25T13:00:08.000] debug:  sched: Running job scheduler for full queue.
[2026-11-25T13:00:08.700] _slurm_rpc_submit_batch_job: JobId=1 SLUID=s8 InitPrio=150626 usec=300
[2026-11-25T13:00:08.990] _slurm_rpc_submit_batch_job: JobId=2 SLUID=s9 InitPrio=150626 usec=300
[2026-11-25T13:00:09.013] debug:  sched: Running job scheduler for full queue.
[2026-11-25T13:00:09.500] debug:  sched/backfill: _attempt_backfill: beginning
[2026-11-25T13:00:09.963] _job_complete: JobId=1 WEXITSTATUS 0
[2026-11-25T13:00:09.963] _job_complete: JobId=1 done
a line of another form, _job_complete: JobId=1 done
[2026-11-25T13:00:11.004] debug:  sched: Running job scheduler for default depth.
[2026-11-25T13:00:12.000] _job_complete: JobId=2 done
""".lstrip()
NO_DELAYS = Delays(notice=0.0, handover=0.0, calculated=0.0, looks=1)


def run_of(*starts: int, gpus: int = 2) -> dict[str, Any]:
    """Jobs of g1's partition, which has two GPUs, submitted at 1000, that run for 100 s each."""
    asked = {"nodes": 1, "tasks": 1, "memory": 20000, "gpus": gpus, "feature": "V100"}
    job = {**asked, "exclusive": False, "seconds": 100.0, "minutes": 3, "user": "alice"}
    said = {"state": "COMPLETED", "submit": 1000, "eligible": 1000}
    rows = [
        {
            **job,
            "number": number + 1,
            "partition": "gpu",
            "interactive": number % 2 == 1,
            "outcome": {**said, "start": 1000 + at, "end": 1100 + at},
        }
        for number, at in enumerate(starts)
    ]
    return {"jobs": rows}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """What the campaign writes of one repetition."""
    folder = tmp_path / "rep1"
    for name in ("etc", "run"):
        folder.joinpath(name).mkdir(parents=True)
    write_slurm_conf(folder, cluster_plan(170.0), 20000, (26, 5))
    for path in folder.joinpath("etc").glob("*.conf"):
        path.rename(folder / path.name)
    folder.joinpath(f"{CONTROLLER_LOG}.gz").write_bytes(gzip.compress(LOG.encode()))
    folder.joinpath("jobs.json").write_text(json.dumps(run_of(1, 103, 205)))
    return folder


def test_delays_are_read_from_the_log(folder: Path) -> None:
    delays = delays_of(folder / f"{CONTROLLER_LOG}.gz")
    assert (delays.notice, delays.handover, delays.looks) == (1.0, 2.0, 4)
    assert delays.calculated % 60.0 == pytest.approx(7.291)


def test_a_look_as_a_second_begins_is_told_to_be_of_the_one_before(tmp_path: Path) -> None:
    path = tmp_path / "log.gz"
    path.write_bytes(gzip.compress(LOG.replace("09.013", "09.002").encode()))
    assert delays_of(path).notice == 0.0


def test_a_log_without_ends_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "log.gz"
    lines = [line for line in LOG.splitlines() if "done" not in line]
    path.write_bytes(gzip.compress("\n".join(lines).encode()))
    with pytest.raises(ValueError, match="no line that tells of: ended"):
        delays_of(path)


def test_starts_follow_from_what_the_machine_has_and_from_the_delays(folder: Path) -> None:
    machine, real = read_machine(folder), run_of(0, 0, 0)
    one_by_one = as_simulated(real, machine, NO_DELAYS)
    assert starts_of(one_by_one).tolist() == [0.0, 100.0, 200.0]
    two_at_once = as_simulated(run_of(0, 0, 0, gpus=1), machine, NO_DELAYS)
    assert starts_of(two_at_once).tolist() == [0.0, 0.0, 100.0]
    delayed = Delays(notice=1.0, handover=2.0, calculated=7.0, looks=1)
    assert starts_of(as_simulated(real, machine, delayed)).tolist() == [1.0, 103.0, 205.0]


def test_a_job_that_was_cancelled_at_the_end_runs_as_long_as_it_wanted(folder: Path) -> None:
    real = run_of(0, 0, 0)
    real["jobs"][1]["outcome"] |= {"state": "CANCELLED by 0", "end": 1010}
    found = as_simulated(real, read_machine(folder), NO_DELAYS)
    assert starts_of(found).tolist() == [0.0, 100.0, 200.0]


def test_a_cell_beyond_a_second_and_a_sixth_does_not_agree() -> None:
    real, near, far = run_of(0, 100, 200), run_of(0, 114, 200), run_of(0, 116, 200)
    result = compared([real, real], [near, far])
    assert result["cells"]["interactive gpu"]["agrees"] == [True, False]
    assert result["cells"]["batch gpu"]["agrees"] == [True, True]
    assert result["cells"]["all all"]["real"] == [100.0, 100.0]
    assert result["share_of_real_cells_that_agree"] == 1.0
    assert result["share_of_cells_that_agree"] == pytest.approx(1.0 - 2 / 12)
    assert result["median_start_difference"] == [0.0, 0.0]
    short = compared([run_of(0, 1, 2)], [run_of(0, 2, 3)])  # no more than accounting can tell
    assert np.all(short["cells"]["interactive all"]["agrees"])
    assert short["share_without_the_second"] == 0.0


def test_the_command_reads_a_campaign(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([str(folder.parent)]) == 0
    printed = capsys.readouterr().out
    assert "cells that agree: 1.00" in printed
    found = json.loads(folder.parent.joinpath("fidelity.json").read_text())
    assert found["delays"][0]["handover"] == 2.0
    assert found["cells"]["all gpu"]["simulated"] == [pytest.approx(103.0)]


def test_a_folder_without_a_campaign_is_refused(tmp_path: Path) -> None:
    with pytest.raises(SystemExit, match=r"has no rep1/jobs\.json"):
        main([str(tmp_path)])
