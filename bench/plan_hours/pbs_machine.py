"""The OpenPBS that runs here, with pretended processors; all as it was afterwards."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from datetime import datetime
from pathlib import Path

from bench.plan_hours.load import USERS, StretchJob, StretchPlan
from bench.plan_hours.machine import Closed, Ended, Machine
from slurm_rl_plugin.accounting.pbs.fields import parse_duration
from slurm_rl_plugin.batch_systems.pbs.setup import setup_steps
from slurm_rl_plugin.cli.assembly.shipped_files import shipped_folder
from tests.real.system_users import add_system_user
from tests.real.test_openpbs_plan_estimates import RESOURCES, PlanningPbs, number

#: Seconds that all is kept free.
_CLOSED = 60.0
_END = re.compile(r"^[^;]*;E;(\d+\.[^;]*);(.*)$", re.MULTILINE)


def openpbs(plan: StretchPlan) -> Callable[[], AbstractContextManager[Machine]]:
    """Prepares the server for one arm."""

    @contextmanager
    def start() -> Iterator[Machine]:
        server = PlanningPbs()
        server.delete_all()
        with ExitStack() as stack:
            _prepare(server, stack, plan.processors)
            yield PbsMachine(server, plan.processors)

    return start


def _prepare(server: PlanningPbs, stack: ExitStack, processors: int) -> None:
    """What docs/pbs.md asks for; undone as the stack ends."""
    for user in USERS:
        add_system_user(user)
        home = server.home_of(user)
        if home is not None:
            stack.callback(home.rmdir)
    for step in setup_steps("", server.files / "heartbeat", None, shipped_folder("deploy/pbs")):
        if "one order over" not in step.does.lower():
            stack.callback(server.shell, list(step.undo))
            server.shell(list(step.lines))
    server.qmgr('set server job_sort_formula = "rl_score"')
    server.qmgr("unset server backfill_depth")
    node = server.run("pbsnodes", "-a").stdout.split()[0]
    ncpus = f"set node {node} resources_available.ncpus ="
    stack.callback(server.qmgr, f"{ncpus} {server.processors}")
    server.qmgr(f"{ncpus} {processors}")
    config = (server.files / "sched_config").read_text()
    config = re.sub(r"^strict_ordering:.*$", "strict_ordering: true ALL", config, flags=re.M)
    if not re.search(r"^resources:.*soft_walltime", config, re.MULTILINE):
        config = RESOURCES.sub(r'\1, soft_walltime"', config)
    stack.enter_context(server.changed("sched_config", config))
    stack.callback(server.delete_all)
    server.qmgr("set server scheduling = True")


class PbsMachine:
    """A prepared server."""

    #: The second arm must not learn from the first one's runs.
    lines = '[batch_system]\nadapter = "pbs"\nhistory_days = 0\n'

    def __init__(self, server: PlanningPbs, processors: int) -> None:
        self._server, self._processors, self._reservation = server, processors, ""

    @property
    def env(self) -> Mapping[str, str]:
        return self._server.env

    def submit(self, job: StretchJob) -> int:
        asked = f"select=1:ncpus={job.processors},walltime={60 * job.minutes}"
        words = ("-A", job.account, "-l", asked)
        return number(self._server.submit(*words, user=job.user, seconds=job.seconds))

    def reserve(self, ahead: float) -> Closed:
        begin = float(int(time.time() + ahead))  # noqa: TID251
        at = datetime.fromtimestamp(begin).strftime("%H%M.%S")
        words = ("-R", at, "-D", f"{_CLOSED:.0f}", "-l", f"select=1:ncpus={self._processors}")
        name = self._server.run("pbs_rsub", *words, user=USERS[0]).stdout.split()[0]
        self._reservation = name
        self._server.wait_until(lambda: self._is_confirmed(name), 30.0, "confirmed reservation")
        return Closed(begin=begin, end=begin + _CLOSED)

    def is_empty(self) -> bool:
        return not self._server.run("qselect").stdout.strip()

    def standing(self) -> int:
        words = ("qselect", "-s", "Q", "-l", "soft_walltime.gt.0")
        return len(self._server.run(*words).stdout.split())

    def ended(self, numbers: Sequence[int]) -> dict[int, Ended]:
        folder = Path(self._server.conf["PBS_HOME"], "server_priv", "accounting")
        text = "".join(path.read_text() for path in sorted(folder.iterdir())[-2:])
        wanted = set(numbers)
        found = ((number(name), told) for name, told in _END.findall(text))
        return {job: ended_of(told) for job, told in found if job in wanted}

    def end_all(self) -> None:
        self._server.delete_all()
        if self._reservation:
            self._server.run("pbs_rdel", self._reservation, check=False)  # it may be over

    def _is_confirmed(self, name: str) -> bool:
        return "RESV_CONFIRMED" in self._server.run("pbs_rstat", "-f", name).stdout


def ended_of(told: str) -> Ended:
    """What a record of type E tells in its `name=value` words."""
    word = dict(each.partition("=")[::2] for each in told.split())
    status = word.get("Exit_status", "")
    return Ended(
        submit=float(word["ctime"]),
        start=float(word["start"]),
        end=float(word["end"]),
        state="COMPLETED" if status == "0" else f"Exit_status={status}",
        limit=parse_duration(word["Resource_List.walltime"]),
        estimate=parse_duration(word.get("Resource_List.soft_walltime", "0")),
    )
