"""Event files of a Slurm simulator: each `sbatch` command with its time, and how long its job ran.

A line is `-dt SECONDS -e submit_batch_job | -sim-walltime SECONDS --uid=USER [options] job.sh`.

A ValueError has two arguments: the field, and what is wrong.
"""

from __future__ import annotations

import math
import re
import shlex
from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple

import polars as pl

from slurm_rl_plugin.accounting.log_file import LogFile
from slurm_rl_plugin.accounting.log_reader import AccountingReader
from slurm_rl_plugin.accounting.port import resources_text
from slurm_rl_plugin.accounting.slurm.options import asked_of, cut_options
from slurm_rl_plugin.accounting.slurm.resources import limit_seconds
from slurm_rl_plugin.accounting.stored.log import COLUMNS, REQUESTS

_COUNTS = ("nodes", "ntasks", "ntasks-per-node", "cpus-per-task")
_JOB_NAME = re.compile(r"\D*(\d{1,18})", re.ASCII)
#: The event that is a job.
_SUBMISSION = "submit_batch_job"
_HEAD = re.compile(
    r"\s*(?:-dt\s+(?P<dt>\S+)\s+-e\s+(?P<e>\w+)|-e\s+(?P<e2>\w+)\s+-dt\s+(?P<dt2>\S+))\s*(?:\||$)",
    re.ASCII,
)
#: Words of the simulator itself, each with a value.
_OWN = ("-sim-walltime", "-jid", "-cancel-in")
_NUMBER = re.compile(r"-?\d{1,15}(\.\d*)?", re.ASCII)


class _SimulatorEvent(NamedTuple):
    """One line."""

    time: float  #: seconds since the simulation began
    kind: str  #: of the event
    own: dict[str, str]  #: the simulator's own words and their values
    words: list[str]  #: of `sbatch`, its options before the script


def _cut_event(line: str) -> _SimulatorEvent:
    head = _HEAD.match(line)
    if head is None:
        raise ValueError("-dt", "the line is no event: mend or remove it")
    rest = line[head.end() :]
    try:
        words = shlex.split(rest) if "'" in rest or '"' in rest or "\\" in rest else rest.split()
    except ValueError:
        raise ValueError("sbatch", "its quotes do not match: mend or remove the line") from None
    own = {}
    for name in _OWN:
        if name in words:
            place = words.index(name)
            own[name] = words[place + 1] if place + 1 < len(words) else ""
            del words[place : place + 2]
    time = _seconds_of("-dt", head["dt"] or head["dt2"])
    return _SimulatorEvent(time, head["e"] or head["e2"], own, words)


def _seconds_of(name: str, text: str) -> float:
    if not _NUMBER.fullmatch(text):
        raise ValueError(name, f"{text!r} is no number: mend it")
    return float(text)


def _job(
    event: _SimulatorEvent, options: Mapping[str, str], run_time: float, limit: float, number: int
) -> dict[str, object]:
    try:
        asked = asked_of(options)
    except ValueError as error:
        option, _, problem = str(error).rstrip(".").partition(" ")
        raise ValueError(option, problem) from None
    user, name = options.get("uid", ""), options.get("job-name", "")
    told = _JOB_NAME.fullmatch(event.own.get("-jid", "") or name)
    return {
        "job_id": int(told[1]) if told else number,
        "submit": event.time,
        "eligible": event.time,
        "start": math.nan,
        "run_time": run_time,
        "time_limit": limit,
        "account": options.get("account", user),
        "user": user,
        "partition": options.get("partition", ""),
        "qos": options.get("qos", ""),
        "job_name": name,
        "submit_line": " ".join(["sbatch", *event.words]),
        "resources": resources_text(asked.amounts),
        **asked._asdict(),
    }


class SbatchReader(AccountingReader):
    """Reads event files, whose submissions are seconds since their beginning; they have no starts.

    A job without a run time runs to its limit, one without an account (-A) is its user's.
    """

    kind = "sbatch"

    def __init__(self) -> None:
        super().__init__()
        self._lines = 0

    def jobs(self, log: LogFile) -> Iterator[pl.DataFrame]:
        """The jobs of a file; a line that is not understood is a fault."""
        log.head()
        for data in log.batches():
            lines = data.removesuffix(b"\n").decode("utf-8", errors="replace").split("\n")
            yield self._take(log, lines)
        if not self.tally.read:
            raise log.fault("the file holds no submit_batch_job; export it again")

    def _take(self, log: LogFile, lines: Iterable[str]) -> pl.DataFrame:
        rows = []
        for line in lines:
            self._lines += 1
            if not line.strip() or line.lstrip().startswith("#"):
                continue
            try:
                job = self._judged(_cut_event(line))
            except ValueError as error:
                field, problem = error.args
                raise log.fault(problem, line=self._lines, field=field) from None
            if job is not None:
                rows.append(job)
        self.tally.kept += len(rows)
        return pl.DataFrame(rows, schema={**COLUMNS, **REQUESTS}, orient="row")

    def _judged(self, event: _SimulatorEvent) -> dict[str, object] | None:
        if event.kind != _SUBMISSION:
            self.tally.others[event.kind] += 1
            return None
        self.tally.read += 1
        try:
            options, _ = cut_options(event.words)
        except ValueError as error:
            raise ValueError("sbatch", str(error).rstrip(".")) from None
        try:
            limit = limit_seconds(options.get("time", "")) or math.nan
        except ValueError:
            problem = f"{options['time']!r} is no time limit: mend it"
            raise ValueError("--time", problem) from None
        run_time = limit
        if "-sim-walltime" in event.own:
            run_time = _seconds_of("-sim-walltime", event.own["-sim-walltime"])
        faults = {
            "negative submit time": event.time < 0,
            "no run time": math.isnan(run_time),
            "negative run time": run_time < 0,
            "never ran": run_time == 0,
            "no processors": any(options.get(name) == "0" for name in _COUNTS),
        }
        if any(faults.values()):
            self.tally.dropped[next(reason for reason, shown in faults.items() if shown)] += 1
            return None
        if event.time < self.tally.last_submit:
            self.tally.noticed["submit going backwards"] += 1
        self.tally.last_submit = event.time
        return _job(event, options, run_time, limit, self.tally.read)
