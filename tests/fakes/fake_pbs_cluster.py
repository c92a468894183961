"""The test's side of the fake PBS: describe a cluster, let its commands misbehave."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from slurm_rl_plugin.batch_systems.pbs.cluster import Pbs
from slurm_rl_plugin.batch_systems.port import AdapterParts
from slurm_rl_plugin.domain.job_class import JobClassifier
from tests.fakes.state_file import StateFile

HERE = Path(__file__).parent
NOW = 1_800_000_000
DEFAULT_SCORE = 1000
EMPTY_QUEUE: dict[str, Any] = {"limits": {}, "in_use": 0, "queued": 0}


def fake_libpbs(folder: Path, *flags: str) -> Path:
    """Compile the fake library; skips the test where there is no C compiler."""
    compiler = shutil.which("cc")
    if compiler is None:
        pytest.skip("needs a C compiler for the fake libpbs: install gcc")
    library = folder / "libpbs.so"
    source = HERE / "fake_libpbs.c"
    subprocess.run([compiler, "-shared", "-fPIC", *flags, "-o", library, source], check=True)
    return library


class FakePbs(StateFile):
    """A state file, pbs.conf, and the environment in which the fake commands find them.

    Args:
        directory: an empty folder.
        library: the fake libpbs; None for an installation without it.
        jobs: plain queued ones, `1.head` to `JOBS.head`.
    """

    def __init__(self, directory: Path, library: Path | None = None, jobs: int = 0) -> None:
        path = directory / "pbs.json"
        self.home, installed = directory / "home", directory / "exec"
        (installed / "lib").mkdir(parents=True)
        (self.home / "sched_priv").mkdir(parents=True)
        (installed / "bin").symlink_to(HERE / "pbs_bin")
        if library is not None:
            (installed / "lib" / "libpbs.so").symlink_to(library)
        conf = directory / "pbs.conf"
        conf.write_text(f"# fake\nPBS_EXEC={installed}\nPBS_HOME={self.home}\nPBS_SERVER=head\n")
        self.env = {
            "PATH": str(Path(sys.executable).parent),  # not /usr/bin: Slurm may be there
            "PBS_CONF_FILE": str(conf),
            "FAKE_PBS_STATE": str(path),
            "TZ": "Asia/Kolkata",  # what commands say of times depends on it
        }
        state: dict[str, Any] = {
            "jobs": {},
            "server": {"job_sort_formula": "1000*rl_score", "job_history_enable": "True"},
            "schedulers": ["default"],
            "defaults": {"rl_score": DEFAULT_SCORE},
            "resource": {"type": "float", "flag": "i"},
            "hooks": ["slurm_rl_class", "slurm_rl_dead_man"],
            "queues": {name: dict(EMPTY_QUEUE) for name in ("batch", "long", "workq")},
            "fairshare": {"physics": (0.7, 750), "biology": (0.3, 250)},
            "nodes": {
                "n1": {"state": "job-busy", "ncpus": 4, "assigned": 4},
                "n2": {"state": "free", "ncpus": 4, "assigned": 0},
                "n3": {"state": "down,offline", "ncpus": 4, "assigned": 1},
            },
        }
        super().__init__(path, state)
        for number in range(1, jobs + 1):
            self.add(f"{number}.head")

    def adapter(self, **settings: Any) -> Pbs:
        """Its adapter, at the time NOW where a test names no clock."""
        given: dict[str, Any] = {"shares": None, "classifier": JobClassifier()}
        given |= {"clock": lambda: float(NOW), "environment": self.env, **settings}
        return Pbs(AdapterParts(**given))

    def add(self, name: str, **values: Any) -> str:
        """Add one job; the defaults are a plain queued job of alice."""
        job: dict[str, Any] = {
            "Job_Name": "trial",
            "Job_Owner": "alice@head",
            "job_state": "Q",
            "queue": "workq",
            "server": "head",
            "ctime": NOW - 100,
            "mtime": NOW - 100,
            "qtime": NOW - 100,
            "etime": NOW - 90,
            "stime": None,
            "obittime": None,
            "Hold_Types": "n",
            "Priority": 0,
            "Account_Name": "physics",
            "project": "_pbs_project_default",
            "Resource_List": {
                "mem": "1gb",
                "ncpus": 2,
                "nodect": 1,
                "place": "free",
                "select": "1:ncpus=2:mem=1gb",
                "walltime": "00:10:00",
                **({"rl_score": s} if (s := self.state["defaults"].get("rl_score")) else {}),
            },
            "substate": 10,
            "euser": "alice",
            "egroup": "users",
            "Variable_List": {"SECRET": "of alice"},
            "Submit_arguments": "-v SECRET",
        }
        state = self.state
        state["jobs"][name] = {**job, **values}
        self._write(state)
        return name

    def change(self, name: str, **values: Any) -> None:
        """Change attributes of a job."""
        state = self.state
        state["jobs"][name].update(values)
        self._write(state)

    def set_score(self, name: str, score: Any) -> None:
        """Give a job a score past the plugin, as a manager could."""
        state = self.state
        state["jobs"][name]["Resource_List"]["rl_score"] = score
        self._write(state)

    def request(self, name: str, **resources: Any) -> None:
        """Change what a job asks for past every check; None takes a resource away."""
        asked = {**self.state["jobs"][name]["Resource_List"], **resources}
        self.change(name, Resource_List={k: each for k, each in asked.items() if each is not None})

    def run_job(self, name: str, start: int = NOW) -> None:
        self.change(name, job_state="R", stime=start)

    def end_job(self, name: str, end: int = NOW) -> None:
        self.change(name, job_state="F", obittime=end)

    def forget(self, name: str) -> None:
        """Remove a job, as a server without history does at its end."""
        state = self.state
        del state["jobs"][name]
        self._write(state)

    def set_server(self, **values: Any) -> None:
        self.set(server={**self.state["server"], **values})

    def score(self, name: str) -> Any:
        """The score that a job has on the server."""
        return self.state["jobs"][name]["Resource_List"].get("rl_score")

    def set_queue(self, name: str, **values: Any) -> None:
        """Change a queue: its `limits` by entity, processors `in_use`, jobs `queued`."""
        queues = self.state["queues"]
        queues[name] = {**queues.get(name, EMPTY_QUEUE), **values}
        self.set(queues=queues)

    def limits(self, name: str) -> dict[str, int]:
        """The limits on ncpus of a queue, by entity."""
        found: dict[str, int] = self.state["queues"][name]["limits"]
        return found
