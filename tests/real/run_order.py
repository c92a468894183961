"""The order in which jobs ran that cannot run side by side, by slurmctld's log.

Ends are counted, since 26.05 does not log a start by backfill.
"""

from __future__ import annotations

import re
from collections.abc import Collection

from tests.real.private_cluster import PrivateSlurm

#: Of a component of a heterogeneous job the leader's number comes first.
DONE = re.compile(r"_job_complete: JobId=(?P<job>\d+)\S* done$")


def run_order(cluster: PrivateSlurm, jobs: Collection[int]) -> list[int]:
    """Those of the jobs that have run, a heterogeneous one once for each component."""
    lines = (cluster.directory / "log" / "slurmctld.log").read_text().splitlines()
    found = (DONE.search(line) for line in lines)
    return [job for job in (int(each["job"]) for each in found if each) if job in jobs]
