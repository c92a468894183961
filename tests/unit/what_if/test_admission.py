"""Jobs whose partition allows less than before: what their users would have sent instead."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from slurm_rl_plugin.machine_files.changes import changed
from slurm_rl_plugin.machine_files.reader import read_cluster
from slurm_rl_plugin.simulator.workloads.generators import generated_log
from slurm_rl_plugin.units import HOUR
from slurm_rl_plugin.what_if.variant import admitted
from tests.case_files import known, rows
from tests.unit.machine_files.written_files import NODES, machine_of_lines


@rows("admission", "", "case")
def test_what_users_send_to_a_partition_that_allows_less(
    case: dict[str, Any], tmp_path: Path
) -> None:
    results = ("limits", "runs", "where", "said")
    case = known(case, "partitions", "change", "processors", "asked", *results)
    machine_of_lines(tmp_path, NODES, *case["partitions"])
    cluster = read_cluster(tmp_path)
    after = changed(cluster, case.get("change", "partition short MaxTime=2:00:00")).machine
    jobs = replace(
        generated_log("mmn:jobs=3,processors=1"),
        partitions=("short",),
        partition=np.zeros(3, dtype=np.int64),
        processors=np.full(3, case.get("processors", 1)),
        time_limit=np.array(case.get("asked", [1.0, 3.0, 4.0])) * HOUR,
        run_time=np.array([0.5, 1.5, 3.5]) * HOUR,
    )
    log, sentences = admitted(jobs, cluster.machine, after)
    assert (log.time_limit / HOUR).tolist() == case["limits"]
    assert (log.run_time / HOUR).tolist() == case["runs"]
    assert [log.partitions[place] for place in log.partition] == case["where"]
    assert len(sentences) == ("said" in case)
    assert all(words in sentences[0] for words in case.get("said", []))
