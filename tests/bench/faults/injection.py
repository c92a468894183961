"""Tries one fault on a running site: sign, recovery, a stop during the fault, a kill."""

from __future__ import annotations

import argparse
import shutil
import time
from contextlib import ExitStack, suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from slurm_rl_plugin.hook.audit.log import AuditFilter, AuditReader
from tests.bench.faults.every_fault import fault_named
from tests.bench.faults.jobs_under_fault import PLAN
from tests.bench.faults.scene import (
    CYCLE,
    JUMP,
    STARVATION,
    TIMEOUT,
    Fault,
    Scene,
    set_up,
    settable_clock,
)
from tests.bench.report import write_document
from tests.real.conftest import running_slurm
from tests.real.slurm_releases import RELEASES, SlurmRelease


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("name")
    parser.add_argument("folder", type=Path)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--release", choices=list(RELEASES))
    options = parser.parse_args()
    folder = options.folder.resolve()
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    release = RELEASES.get(options.release)
    found = inject(fault_named(options.name), folder, options.seed, release=release)
    result = found.as_json() | {"release": options.release, "seed": options.seed}
    write_document(folder / "result.json", result)


#: Seconds of a cycle itself and of polling.
SLACK = 2.0
#: Jobs that are submitted just before a fault.
FRESH = 12
_PATIENCE = 90.0


@dataclass(slots=True, kw_only=True)
class Injection:
    """Result of a fault; seconds and job numbers."""

    name: str  #: of the fault
    #: metric, log: whether it showed there.
    metric: bool = False
    log: bool = False
    #: From the end of its cause to the end of the first successful cycle; None if there was no such
    #: cycle.
    recovery: float | None = None
    allowed: float = 0.0  #: longest recovery
    #: Exit code of the daemon that was stopped during the fault; None if it did not run.
    left_in_fault: int | None = None
    #: Jobs with a factor after that stop and the watchdog.
    factors_left: list[str] = field(default_factory=list)
    #: The same after a kill and the watchdog.
    factors_after_kill: list[str] = field(default_factory=list)
    jobs: int = 0  #: submitted jobs
    #: lost, held, failed, starved: jobs that were harmed.
    lost: list[str] = field(default_factory=list)
    held: list[str] = field(default_factory=list)
    failed: list[str] = field(default_factory=list)
    starved: list[str] = field(default_factory=list)
    torn: int = 0  #: incomplete lines of the audit log
    longest_wait: float = 0.0  #: of a job that started
    seconds: float = 0.0  #: duration of the trial
    error: str = ""  #: why the trial could not be finished; "" if it was

    @property
    def complaints(self) -> list[str]:
        """Every failed expectation; none if the fault was survived."""
        found = [f"error: {self.error}"] if self.error else []
        found += [] if self.metric else ["no metric shows it"]
        found += [] if self.log else ["no line of the log shows it"]
        if self.recovery is None:
            found.append("no recovery was seen")
        elif self.recovery > self.allowed:
            found.append(f"recovered after {self.recovery:.1f} s, allowed {self.allowed:.1f} s")
        found += [f"{self.torn} torn lines in the audit log"] if self.torn else []
        named = ("lost", "held", "failed", "starved", "factors_left", "factors_after_kill")
        for name in named:
            jobs = getattr(self, name)
            found += [f"{name.replace('_', ' ')}: {', '.join(jobs)}"] if jobs else []
        return found

    @property
    def survived(self) -> bool:
        """Whether every expectation was met."""
        return not self.complaints

    def as_json(self) -> dict[str, Any]:
        """The result as JSON."""
        return {**asdict(self), "survived": self.survived, "complaints": self.complaints}


def inject(
    fault: Fault,
    folder: Path,
    seed: int,
    slack: float = SLACK,
    release: SlurmRelease | None = None,
) -> Injection:
    """Tries a fault on a cluster of its own; an error during the trial is part of the result.

    Args:
        folder: empty, for the daemon's files.
        seed: of the jobs and of the times of the fault.
        slack: seconds of a cycle itself and of polling; more on a busy machine.
        release: Slurm release; None for the installed one.
    """
    found, begin = Injection(name=fault.name), time.monotonic()
    found.allowed = CYCLE + slack + fault.slack
    with ExitStack() as stack:
        if fault.clock:
            stack.enter_context(settable_clock(folder))
        cluster = stack.enter_context(running_slurm(PLAN, release))
        try:
            scene = set_up(fault, cluster, folder, seed, stack)
            stack.enter_context(fault.place(scene))
            _go_through(fault, scene, found)
        except Exception as error:  # noqa: BLE001 - a campaign goes on with the next one
            found.error = f"{type(error).__name__}: {error}"
        with suppress(OSError):
            shutil.copy(cluster.directory / "log" / "slurmctld.log", folder)
        if not found.survived:
            queue = cluster.run("squeue", "-t", "all", "-r", check=False)
            (folder / "squeue.txt").write_text(queue.stdout + queue.stderr)
    found.seconds = time.monotonic() - begin
    return found


def _go_through(fault: Fault, scene: Scene, found: Injection) -> None:
    daemon, jobs = scene.daemon, scene.jobs
    jobs.submit_first()
    daemon.start()
    daemon.wait_for_good_cycle(_PATIENCE)
    jobs.submit(FRESH)
    if fault.after_save:
        jobs.wait_until_saved()
    read = len(scene.daemon.log)
    away = _begin_and_see(fault, scene, found)
    found.recovery = _recover(fault, scene)
    found.log = found.log or fault.log in scene.daemon.log[read:]
    found.held += jobs.held_by_us()
    jobs.submit(FRESH)
    if fault.after_save:
        jobs.wait_until_saved()
    daemon.wait_for_good_cycle(_PATIENCE)
    away += _leave_amid(fault, scene, found)
    jobs.close()
    found.factors_left = jobs.factors_left()
    daemon.start()
    daemon.wait_for_good_cycle(_PATIENCE)
    daemon.kill()
    _watch_until_done(scene)
    found.factors_after_kill = jobs.factors_left()
    if fault.clock:  # slurmctld schedules nothing until its last pass is past again
        scene.cluster.restart("slurmctld")
    jobs.finish()
    _judge(fault, scene, found, away)


def _begin_and_see(fault: Fault, scene: Scene, found: Injection) -> float:
    """Causes the fault and waits until it shows; returns the seconds."""
    before, read, began = scene.daemon.scrape(), len(scene.daemon.log), time.monotonic()
    fault.begin(scene)
    while time.monotonic() - began < fault.patience and not (found.metric and found.log):
        found.metric = found.metric or fault.sign.shows(before, scene.daemon.scrape())
        found.log = found.log or fault.log in scene.daemon.log[read:]
        time.sleep(0.1)
    return time.monotonic() - began


def _recover(fault: Fault, scene: Scene) -> float:
    """Ends the cause; returns the seconds to the end of the first successful cycle."""
    good, begun = scene.daemon.good_cycles(), time.monotonic()
    fault.end(scene)
    ended = begun if fault.counts_end else time.monotonic()
    scene.daemon.wait_for_good_cycle(_PATIENCE, since=good)
    return max(time.monotonic() - ended, 0.0)


def _leave_amid(fault: Fault, scene: Scene, found: Injection) -> float:
    """Stops the daemon during the fault; the watchdog releases what is left."""
    began = time.monotonic()
    fault.begin(scene)
    if scene.daemon.runs:
        found.left_in_fault = scene.daemon.hook.stop()
    fault.end(scene)
    if scene.daemon.runs:  # a fault of the daemon itself ends with its restart
        found.left_in_fault = scene.daemon.hook.stop()
    _watch_until_done(scene)
    return time.monotonic() - began


def _watch_until_done(scene: Scene) -> None:
    """Runs the watchdog, as its timer does, until it has nothing to do."""
    last = ""

    def done() -> bool:
        nonlocal last
        answer = scene.daemon.watchdog()
        last = answer.stdout + answer.stderr
        return answer.returncode == 0

    try:
        scene.cluster.wait_until(done, _PATIENCE, "no factor of the daemon is left")
    except Exception as error:
        raise AssertionError(f"the watchdog does not end: {last}") from error


def _judge(fault: Fault, scene: Scene, found: Injection, away: float) -> None:
    grace = (
        away + (found.recovery or 0.0) + 2 * CYCLE + 2 * TIMEOUT + (JUMP if fault.clock else 0.0)
    )
    reruns = fault.reruns_jobs or fault.after_save or fault.forgets_jobs
    for harm, harmed in scene.jobs.harmed(STARVATION, grace, reruns=reruns).items():
        getattr(found, harm).extend(harmed)
    found.jobs = len(scene.jobs.submitted)
    found.longest_wait = max(each.wait for each in scene.jobs.seen().values())
    found.torn = _torn_lines(scene.daemon.files / "audit.jsonl")


def _torn_lines(path: Path) -> int:
    reader = AuditReader([path])
    assert sum(1 for _ in reader.lines(AuditFilter())), f"{path} has no line"
    return reader.bad


if __name__ == "__main__":
    main()
