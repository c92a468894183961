"""pyslurm over the state file of the fake commands, with its pitfalls; for a child only.

Put the folder above on the child's PYTHONPATH. FAKE_PYSLURM names the release. The pitfalls of
22.5.3 were seen with the real one; what other releases do otherwise was read in their source:

* 22.5.2: `Jobs` is a dict; later ones are a map of clusters, whose `values` is a view;
* up to 24.11 a negative nice is shown as an unsigned number, from 25.5 on it is signed;
* up to 25.5 a user without a name raises KeyError, 25.11 shows the number.

All releases have in common:

* without a readable slurm.conf the import ends the interpreter (mode `no_conf`);
* calls keep the interpreter's lock while they wait (mode `hang`);
* a whole number 0 as a factor changes nothing, the text "0" does;
* `modify` changes the one record with that number, never an array;
* task number 0 is shown as None, and no factor at all;
* a job's name that is no UTF-8 cannot be read.

Modes of the state, under `pyslurm`: those two, `hang_at_import`, `missing`, `exit` (in a call),
`down`, `down_after_one`, `deny`, `deny_list`, `chatty` (prints on standard output).
"""

import ctypes
import importlib.util
import json
import os
from pathlib import Path

import fake_slurm

__version__ = os.environ.get("FAKE_PYSLURM", "25.11.2")
RELEASE = tuple(int(part) for part in __version__.split("."))

MESSAGES = {
    1800: "Unable to contact slurm controller (connect failure)",
    2002: "Access/permission denied",
    2027: "Slurm backup controller in standby mode",
    2017: "Invalid job id specified",
    2083: "Job has already finished",
}
STATE = Path(os.environ["FAKE_SLURM_STATE"])
UNSIGNED = 1 << 32
USERS = {"root": 0, "alice": 1001, "bob": 1002}


def _state():
    return json.loads(STATE.read_text())


def _die(words):
    os.write(2, words.encode() + b"\n")
    os._exit(1)


def _misbehave(mode):
    if mode == "hang":
        ctypes.PyDLL(None).sleep(600)  # PyDLL keeps the interpreter's lock
    if mode == "exit":
        _die("pyslurm: fatal: the library gave up")
    if mode == "chatty":
        os.write(1, b"libslurm prints this\n" * 3)
    if mode == "down":
        raise RPCError(1800)
    if mode == "standby":
        raise RPCError(2027)


class PyslurmError(Exception):
    pass


class RPCError(PyslurmError):
    def __init__(self, errno=-1, msg=None):
        self.errno = errno
        super().__init__(msg or MESSAGES[errno])


class Job:
    def __init__(self, job_id):
        if not isinstance(job_id, int):
            raise TypeError("an integer is required")
        self.id = job_id

    def modify(self, changes):
        state = _state()
        mode = state["modes"].get("pyslurm", "")
        _misbehave(mode)
        state["modified"] = [*state.get("modified", []), self.id]
        STATE.write_text(json.dumps(state))
        if mode == "down_after_one" and len(state["modified"]) > 1:
            raise RPCError(1800)
        found = [job for job in state["jobs"] if job["job_id"] == self.id]
        if mode == "deny":
            raise RPCError(2002)
        if not found:
            raise RPCError(2017)
        if found[0]["state"] == "COMPLETED":
            raise RPCError(2083)
        if changes.site_factor:
            found[0]["site"] = int(changes.site_factor)
        STATE.write_text(json.dumps(state))


class JobSubmitDescription:
    def __init__(self, site_factor=None):
        self.site_factor = site_factor


class Jobs(dict if RELEASE < (22, 5, 3) else object):
    def __init__(self, jobs):
        self._jobs = {job.id: job for job in jobs}
        if RELEASE < (22, 5, 3):
            self.update(self._jobs)

    @staticmethod
    def load(preload_passwd_info=False, frozen=False):
        state = _state()
        mode = state["modes"].get("pyslurm", "")
        _misbehave(mode)
        if mode == "deny_list":
            raise RPCError(2002)
        return Jobs([_LoadedJob(job) for job in state["jobs"]])

    def values(self):
        return super().values() if RELEASE < (22, 5, 3) else iter(self._jobs.values())


class _LoadedJob(Job):
    def __init__(self, job):
        super().__init__(job["job_id"])
        alone = job["array_id"] == job["job_id"] and not job["tasks"]
        one_task = job["tasks"].isdigit()
        self._job = job
        self.array_id = None if alone else job["array_id"]
        self.array_task_id = (int(job["tasks"]) or None) if one_task else None
        self.array_tasks_waiting = None if one_task else job["tasks"] or None
        self.heterogeneous_id = job["het_id"] or None
        self.state = job["state"]
        self.state_reason = job["reason"]
        self.priority = fake_slurm._total(job)
        self.nice = job["nice"] if RELEASE >= (25, 5) else job["nice"] % UNSIGNED
        self.cpus = job["processors"]
        self.submit_time = job["submit"]
        self.eligible_time = job["eligible"]
        self.accrue_time = fake_slurm._accrue(job)
        self.start_time = job["start"]
        self.end_time = job["end"]
        self.time_limit = _minutes(job["time_limit"])
        self.account = job["account"]
        self.user_id = USERS.get(job["user"], 4242)
        self.partition = job["partition"]
        self.qos = job["qos"] or None
        self.is_batch_job = bool(job["batch"])
        self.allocated_nodes = job["nodes"] or None

    @property
    def user_name(self):
        if self.user_id == 4242:
            if RELEASE >= (25, 11):
                return str(self.user_id)
            raise KeyError(f"getpwuid(): uid not found: {self.user_id}")
        return self._job["user"]

    @property
    def name(self):
        name = self._job["name"]
        return name.encode("utf-8", "surrogateescape").decode() or None


def _minutes(text):
    if text == "UNLIMITED":
        return None
    days, _, clock = text.rpartition("-")
    hours, minutes, _seconds = [0, *map(int, clock.split(":"))][-3:]
    return int(days or 0) * 1440 + hours * 60 + minutes


def _at_import():
    if importlib.util.find_spec("slurm_fields"):
        raise ImportError("modules of the package are found by their bare names")
    mode = _state()["modes"].get("pyslurm", "")
    if mode == "missing":
        raise ImportError("libslurm.so.38: cannot open shared object file")
    if mode == "no_conf":
        _die("python: fatal: Unable to process configuration file")
    if mode == "hang_at_import":
        ctypes.PyDLL(None).sleep(600)


_at_import()
