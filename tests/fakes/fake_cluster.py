"""The test's side of the fake Slurm: describe a cluster, let its commands misbehave."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any

from slurm_rl_plugin.batch_systems.port import AdapterParts
from slurm_rl_plugin.batch_systems.slurm.cluster import SlurmCommands
from slurm_rl_plugin.domain.job_class import JobClassifier, JobClassRule
from tests.fakes.state_file import StateFile

BIN = Path(__file__).parent / "bin"
NOW = 1_800_000_000
#: Jobs of at most a minute are interactive.
OF_A_MINUTE = JobClassifier((JobClassRule(job_class="interactive", time_limit_at_most=60.0),))

SHARES = [
    ["root", "", "", "1000"],
    [" root", "root", "1", "0"],
    [" biology", "", "30", "250"],
    ["  biology", "bob", "1", "250"],
    [" physics", "", "70", "750"],
    ["  physics", "alice", "1", "750"],
]
NODES = [
    {"name": "n1", "cpus": "3/1/0/4", "partitions": ["batch", "short"]},
    {"name": "n2", "cpus": "0/4/0/4", "partitions": ["batch", "short"]},
    {"name": "n3", "cpus": "0/0/4/4", "partitions": ["batch"]},
]


class FakeCluster(StateFile):
    """A state file and the environment in which the fake commands find it."""

    kind: type[SlurmCommands] = SlurmCommands  #: of its adapter

    def __init__(self, directory: Path) -> None:
        path = directory / "slurm.json"
        self.env = {
            "PATH": os.pathsep.join([str(BIN), str(Path(sys.executable).parent), "/usr/bin:/bin"]),
            "FAKE_SLURM_STATE": str(path),
        }
        state: dict[str, Any] = {
            "status_after_refusal": 1,
            "now": NOW,
            "settings": {},
            "controllers": [["head", True]],
            "load": {},
            "jobs": [],
            "accounting": [],
            "shares": SHARES,
            "nodes": NODES,
            "tiers": {},
            # of a QOS: in the database, in slurmctld, and of other resources
            "qos": {
                name: {"cpu": None, "live": None, "others": ""} for name in ("normal", "batch")
            },
            "associations": [["trial", "batch,normal"]],
            "tres": ["mem"],
            "licenses": {"slot": 8},
            "reservations": {},
        }
        super().__init__(path, state)

    def adapter_settings(self, **settings: Any) -> AdapterParts:
        """What an adapter has to know of it; jobs of at most a minute are interactive."""
        given = {"shares": None, "classifier": OF_A_MINUTE, **settings}
        given.setdefault("history_days", 30.0)
        clock = lambda: float(self.state["now"])  # noqa: E731
        return AdapterParts(clock=clock, environment=self.env, **given)

    def adapter(self, **settings: Any) -> SlurmCommands:
        """Its adapter; without past runs, where a test asks for none."""
        return self.kind(self.adapter_settings(**{"history_days": 0.0, **settings}))

    def add(self, job_id: int, **values: Any) -> int:
        """Add one record; the defaults are a plain eligible job of alice."""
        job: dict[str, Any] = {
            "job_id": job_id,
            "array_id": job_id,
            "het_id": 0,
            "state": "PENDING",
            "reason": "Resources",
            "by_hand": None,
            "site": 0,
            "nice": 0,
            "counted_nice": None,
            "processors": 1,
            "submit": NOW - 100,
            "eligible": NOW - 100,
            "accrue": "eligible",
            "start": None,
            "end": None,
            "time_limit": "10:00",
            "account": "physics",
            "user": "alice",
            "partition": "batch",
            "qos": "normal",
            "licenses": "(null)",
            "siblings": ("NA", "NA"),
            "exclusive": False,
            "constraint": "(null)",
            "batch": 1,
            "refused": None,
            "nodes": "",
            "tasks": "",
            "tres": "",
            "asks": f"cpu={values.get('processors', 1)},node=1,billing=1",
            "tasks_asked": values.get("processors", 1),
            "memory": "0",
            "per_gpu": 0,
            "per_job": "N/A",
            "per_node": "N/A",
            "per_task": "N/A",
            "name": "trial",
            "comment": "",
            "factors": {"age": 0, "assoc": 0, "fairshare": 10000, "size": 312, "qos": 0},
        }
        assert not values.keys() - job.keys(), values
        state = self.state
        state["jobs"].append({**job, **values})
        self._write(state)
        return job_id

    def change(self, record: int, **values: Any) -> None:
        """Change values of the record with this number."""
        state = self.state
        for job in state["jobs"]:
            if job["job_id"] == record:
                job.update(values)
        self._write(state)

    def run_job(self, record: int, start: int = NOW) -> None:
        self.change(record, state="RUNNING", reason="None", start=start, nodes="n1")
        self.count("started")

    def count(self, event: str) -> None:
        """Let `sdiag` count one event more."""
        load = self.state["load"]
        self.set(load={**load, event: load.get(event, 0) + 1})

    def end_job(self, record: int, end: int = NOW) -> None:
        self.change(record, state="COMPLETED", end=end)

    def forget(self, record: int) -> None:
        """Remove a record, as Slurm does MinJobAge after the job's end."""
        state = self.state
        state["jobs"] = [job for job in state["jobs"] if job["job_id"] != record]
        self._write(state)

    def record(self, number: int) -> dict[str, Any]:
        """One record as the commands see it."""
        found: dict[str, Any] = next(j for j in self.state["jobs"] if j["job_id"] == number)
        return found
