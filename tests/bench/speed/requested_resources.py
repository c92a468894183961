"""`make bench`: a decision where jobs ask for four resources, over one of processors alone.

    python -m tests.bench.speed.requested_resources

From the answers of Slurm's commands to the changes that would be written: answers are read, the
model decides, and the fewest writes are found. Both sides see the same jobs, in turn; the commands
themselves are not run. `first look` reads every record, as after a start; of later looks one record
in a hundred is new.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from slurm_rl_plugin.batch_systems.kind import AdapterParts
from slurm_rl_plugin.batch_systems.slurm.answers.fields import (
    FIELDS_WITH_REQUESTS,
    QUEUE_FIELDS,
    SEPARATOR,
    end_of,
)
from slurm_rl_plugin.batch_systems.slurm.cluster import SlurmCommands
from slurm_rl_plugin.domain import Memory
from slurm_rl_plugin.domain.job_class import JobClassifier, JobClassRule
from slurm_rl_plugin.hook.order.order_changes import order_changes
from slurm_rl_plugin.policies.port import Policy
from slurm_rl_plugin.policies.registry import SHIPPED_MODEL
from slurm_rl_plugin.services.hook import load_policy
from tests.bench.speed.figures.figure import paired_ratio

#: Of records in answers that are kept; each question has one of its own.
MARK = "@mark@"
NOW = 1_800_000_000
ACCOUNTS, USERS, NODES = 20, 200, 200
#: Different requests in the queue: users submit what they submitted before.
TEMPLATES = 1000
#: Part of the jobs that are new in a later look.
NEW_PART = 0.01
CONFIG = "PriorityType = priority/multifactor\nSLURM_VERSION = 24.11.5\n"
COUNTED = "SelectTypeParameters = CR_CORE_MEMORY\nGresTypes = gpu\n"

RULE = JobClassRule(job_class="interactive", time_limit_at_most=3600.0)


@dataclass
class WrittenAnswers:
    """Answers of Slurm's commands about a drawn queue, in place of what runs them.

    Attributes:
        rng: draws the jobs.
        jobs: that wait.
        resources: whether the machine counts memory and GPUs.
    """

    rng: np.random.Generator
    jobs: int
    resources: bool
    _templates: list[tuple[int, str, str]] = field(default_factory=list)
    _rows: list[dict[str, str]] = field(default_factory=list)
    _printed: dict[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._templates = [self._template() for _ in range(TEMPLATES)]
        self._rows = [self._job(number) for number in range(1, self.jobs + 1)]
        self._print()

    def renew(self) -> None:
        """Jobs go, and others come."""
        last = int(self._rows[-1]["JobID"])
        gone = self.rng.choice(self.jobs, max(int(NEW_PART * self.jobs), 1), replace=False)
        for more, place in enumerate(sorted(gone.tolist(), reverse=True), start=1):
            self._rows.pop(place)
            self._rows.append(self._job(last + more))
        self._print()

    def _print(self) -> None:
        """Make the long answers beforehand: to make them is no part of a decision."""
        names = FIELDS_WITH_REQUESTS if self.resources else QUEUE_FIELDS
        first, *others = names
        lines = (
            SEPARATOR.join([row[first], MARK, ""])
            + "".join(row[name] + end_of(name) for name in others[:-1])
            + row[others[-1]]
            for row in self._rows
        )
        self._printed = {
            "squeue": "".join(f"{line}\n" for line in lines),
            "sprio": "".join(f"{each['JobID']}|a|1000|0|0|0|0|0|0|0|0|\n" for each in self._rows),
        }

    def read(self, command: Sequence[str], environment: Mapping[str, str] | None = None) -> str:
        """What the command would print."""
        if command[0] == "squeue":
            mark = (environment or {})["SQUEUE_FORMAT2"].split(SEPARATOR)[1]
            return self._printed["squeue"].replace(MARK, mark)
        if command[0] == "sinfo" and "GresUsed" in str(command):
            return "".join(
                f"n{n}|a|0/64/0/64|256000|0|gpu:a100:{4 * (n % 2)}(S:0-1)|gpu:a100:0|(null)|idle|\n"
                for n in range(NODES)
            )
        if command[0] == "sinfo":
            return "".join(f"n{n}|0/64/0/64|a|1\n" for n in range(NODES))
        if command[0] == "sprio":
            return self._printed["sprio"]
        if command[0] == "sshare":
            return "".join(f" account{n}||1|{n + 1}\n" for n in range(ACCOUNTS))
        return CONFIG + (COUNTED if self.resources else "")

    def _template(self) -> tuple[int, str, str]:
        """CPUs, TRES and what is asked of each node."""
        draw = self.rng.integers
        cpus, gpus = int(draw(1, 65)), int(draw(0, 5))
        tres = f"cpu={cpus},mem={4 * int(draw(1, 65))}G,node=1,billing={cpus}"
        if not gpus:
            return cpus, tres, "N/A"
        return cpus, f"{tres},gres/gpu={gpus}", f"gres/gpu:a100:{gpus}"

    def _job(self, number: int) -> dict[str, str]:
        draw = self.rng.integers
        cpus, tres, asked = self._templates[int(draw(TEMPLATES))]
        when = str(NOW - int(draw(60, 900_000)))
        times = dict.fromkeys(("SubmitTime", "EligibleTime", "AccrueTime"), when)
        plain = dict.fromkeys(("StartTime", "EndTime", "ArrayTaskID", "HetJobID"), "N/A")
        per = dict.fromkeys(("tres-per-job", "tres-per-socket", "tres-per-task"), "N/A")
        own = {
            "Sockets": "*",
            "cpus-per-tres": "N/A",
            "OverSubscribe": "NO" if cpus % 10 == 0 else "OK",
            "Licenses": "matlab:1" if cpus % 7 == 0 else "(null)",
            "Feature": "a100|v100" if cpus % 5 == 0 else "(null)",
        }
        return {
            "JobID": str(number),
            "ArrayJobID": str(number),
            "State": "PENDING",
            "Reason": "Priority",
            "PriorityLong": "1000",
            "Nice": "0",
            "NumCPUs": str(cpus),
            "TimeLimit": f"{int(draw(1, 48))}:00:00",
            "Account": f"account{draw(ACCOUNTS)}",
            "UserName": f"user{draw(USERS)}",
            "Partition": "a",
            "QOS": "normal",
            "BatchFlag": "1",
            "NodeList": "",
            "Name": "job",
            "NumTasks": str(cpus),
            "cpus-per-task": "1",
            "MinMemory": "4G",
            "tres-per-node": asked,
            "tres-alloc": tres,
            **times | plain | per | own,
        }


@dataclass
class Decider:
    """One side: an adapter over written answers, and the policy with what it remembers."""

    answers: WrittenAnswers
    policy: Policy
    clock: Callable[[], float]
    system: SlurmCommands = field(init=False)
    memory: Memory | None = None

    def __post_init__(self) -> None:
        self.forget()

    def forget(self) -> None:
        """As after a start of the daemon."""
        commands: Any = self.answers
        given = AdapterParts(
            shares=None, classifier=JobClassifier((RULE,)), clock=lambda: float(NOW)
        )
        self.system = SlurmCommands(given, commands)
        self.system.facts()

    def seconds(self) -> dict[str, float]:
        """Of one look and decision, by part."""
        begin = self.clock()
        snapshot = self.system.snapshot()
        looked = self.clock()
        decision = self.policy.decide(snapshot, self.memory)
        self.memory = decision.memory
        order = np.argsort(-decision.scores, kind="stable")
        order_changes(snapshot.pending.total_priority[order])
        end = self.clock()
        told = snapshot.resources.names if snapshot.resources else ()
        assert len(told) == (4 if self.answers.resources else 0), told
        return {"read": looked - begin, "decide": end - looked, "whole": end - begin}


def measured(sides: Sequence[Decider], pairs: int, before: Callable[[Decider], None]) -> Any:
    """Times of both sides in turn, and the ratio of the first over the second."""
    times: list[list[dict[str, float]]] = [[], []]
    for pair in range(pairs + 1):
        for side in (0, 1) if pair % 2 else (1, 0):
            before(sides[side])
            taken = sides[side].seconds()
            if pair:  # the first warms up
                times[side].append(taken)
    parts = {
        part: [float(np.median([each[part] for each in side])) for side in times]
        for part in ("read", "decide", "whole")
    }
    return {
        "seconds_with_and_without": parts,
        "ratio": paired_ratio(*([each["whole"] for each in side] for side in times)),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--jobs", type=int, default=10_000)
    parser.add_argument("--pairs", type=int, default=20)
    parser.add_argument("--policy", default=SHIPPED_MODEL)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument(
        "--processor-time", action="store_true", help="on a machine that others use as well"
    )
    options = parser.parse_args()
    policy = load_policy(options.policy).policy
    sides = [
        Decider(
            WrittenAnswers(np.random.default_rng(options.seed), options.jobs, resources),
            policy,
            time.process_time if options.processor_time else time.perf_counter,
        )
        for resources in (True, False)
    ]
    print(json.dumps({
        "jobs": options.jobs,
        "first look": measured(sides, options.pairs, lambda side: side.forget()),
        "later looks": measured(sides, options.pairs, lambda side: side.answers.renew()),
    }, indent=2))  # fmt: skip


if __name__ == "__main__":
    main()
