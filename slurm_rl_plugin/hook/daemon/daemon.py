"""The daemon: cycles at a pace, backs off without an answer, leaves no factor behind."""

from __future__ import annotations

import logging
import math
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import NamedTuple

from slurm_rl_plugin.batch_systems.port import SchedulerLoad
from slurm_rl_plugin.domain.switchback import OURS, SITE
from slurm_rl_plugin.errors import SlurmRLError
from slurm_rl_plugin.hook.cycle.cycle import Cycle
from slurm_rl_plugin.hook.cycle_report import SOONEST_POLL, CycleReport, NewJobsDue, Pace
from slurm_rl_plugin.hook.daemon.signals import SignalRequest
from slurm_rl_plugin.hook.experiment.turns import ExperimentTurns, Turn
from slurm_rl_plugin.hook.memory.carried_factors import ClockWatch
from slurm_rl_plugin.hook.memory.disable_file import Disablement, DisableWatch

logger = logging.getLogger(__name__)

#: Longest pause between tries while the batch system does not answer, seconds.
LONGEST_PAUSE = 300.0
_LEAVING_TRIES = 3
#: Between signs of life and looks at the disable file while nothing else is to do, seconds.
_SLICE = 5.0
#: Seconds after which a refused candidate is tried again: its file may be there by then.
_REFUSED_FOR = 60.0


class Reloaded(NamedTuple):
    """What the files on disk say now; see the attributes of the same names of `Daemon`."""

    cycle: Cycle
    pace: Pace
    disable_file: Path | None


@dataclass(slots=True, kw_only=True)
class Daemon:
    """Runs cycles until `stop` is set."""

    cycle: Cycle
    pace: Pace
    publish: Callable[[CycleReport], None]  #: metrics listen here
    stop: SignalRequest
    reload_wanted: SignalRequest  #: set by SIGHUP
    reload: Callable[[], Reloaded | None]  #: reads the files anew; None where they are faulty
    disable_file: Path | None  #: while it counts, nothing is written and the factors are restored
    alive: Callable[[], None]  #: called every few seconds (systemd watchdog)
    monotonic: Callable[[], float]  #: seconds, for the pace
    clock: Callable[[], float]  #: seconds since the epoch, for the end of a pause
    sleep: Callable[[float], None]  #: between tries to leave, when `stop` is set
    #: Lets a candidate with this checksum decide, or "" for the configured model. False, with
    #: nothing changed, where the file is another one or cannot be loaded.
    bring_in: Callable[[Cycle, str, str], bool]
    turns: ExperimentTurns | None = None  #: None without an experiment
    _unreachable: int = 0
    _clock_watch: ClockWatch = field(default_factory=ClockWatch)
    _disable_watch: DisableWatch = field(default_factory=DisableWatch)
    _disabled_by: Disablement | None = None
    _turn: Turn = field(default_factory=Turn)
    _asked: Turn = field(default_factory=Turn)
    _refused: Turn | None = None
    _next_try: float = 0.0

    def run(self) -> bool:
        """Run cycles until `stop` is set, then restore all; whether all was restored."""
        try:
            self._cycles()
        except Exception:  # no error may leave a factor behind
            logger.exception("daemon=broken: leaving")
            self.leave()
            raise
        return self.leave()

    def _cycles(self) -> None:
        self.cycle.look_back()
        while not self.stop.is_set():
            if self.reload_wanted.is_set():
                self._reload()
            begin, stood_by = self.monotonic(), self.cycle.stood_by
            report = replace(self.run_once(), snapshot=None)  # the next one takes its room
            taken = self.monotonic() - begin
            if stood_by:  # the batch system owes no rest for calls that waited for a takeover
                report, taken = replace(report, calls=()), 0.0
            self._rest(taken, report)

    def _rest(self, taken: float, report: CycleReport) -> None:
        """Wait until the next cycle; a long pause must neither look dead nor miss a wish."""
        waited, rested = taken, taken + self.pace.air(taken)
        end = max(self._pause(report), rested)
        earliest = max(self.pace.earliest(report), rested)
        looks = report.succeeded and bool(report.events)
        new_jobs = NewJobsDue.after(report, self.pace, rested) if self._places_new(report) else None
        poll = self.pace.poll(report) if new_jobs is None else SOONEST_POLL
        next_look = earliest if new_jobs is None else min(earliest, new_jobs.next_look)
        next_try = rested + self.pace.longest if self._unanswered(report) else math.inf
        while waited < end and not self.stop.is_set():
            self.alive()
            turned = self._disabled() != (report.mode == "disabled") or self._turn_changed()
            if turned or self.reload_wanted.is_set():
                return
            begin, since = self.monotonic(), waited
            if looks and waited >= next_look:
                load = self._load()
                waited = since + self.monotonic() - begin
                next_look = waited + max(poll, (waited - since) / self.pace.busy_share)
                if load is None:
                    looks = False  # no answer: do not poll again before the next cycle
                elif since >= earliest and load.events != report.events:
                    return
                elif new_jobs is not None and new_jobs.may_have_come(load, since):
                    placed = self._place_new_jobs()
                    looks = placed.mode == "active" and placed.succeeded
                    waited = since + self.monotonic() - begin
                    rested = waited + self.pace.air(waited - since)
                    end, earliest = max(end, rested), max(earliest, rested)
                    new_jobs.looked(placed, rested)
                due = earliest if new_jobs is None else min(earliest, new_jobs.next_look)
                next_look = max(next_look, due)
            if waited >= next_try:
                begin = self.monotonic()
                if self._answers():
                    return
                waited += self.monotonic() - begin
                next_try = waited + self.pace.longest
            wake = min(end, next_look if looks else end, next_try, waited + _SLICE)
            self.stop.wait(max(wake - waited, 0.0))
            waited = max(wake, waited)
        self.alive()

    def _load(self) -> SchedulerLoad | None:
        """A cheap look at a batch system that is well; None else, or without an answer."""
        try:
            load = self.cycle.batch_system.load()
        except SlurmRLError as error:
            logger.warning("look=failed reason=%s", error)
            return None
        return load if load.struggles is None else None

    def _places_new(self, report: CycleReport) -> bool:
        acts = report.mode == "active" and report.succeeded and bool(report.events)
        return acts and self.cycle.batch_system.lists_pending

    def _place_new_jobs(self) -> CycleReport:
        report = self.cycle.run(new_jobs=True)
        self.publish(report)
        if report.writes or report.failure:
            failure = report.failure or "none"
            logger.info("new_jobs=placed writes=%d failure=%s", report.writes, failure)
        return report

    def _unanswered(self, report: CycleReport) -> bool:
        """Whether the poll itself failed, or found the batch system overloaded."""
        return report.failure == "busy" or (self._unreachable > 0 and not report.events)

    def _answers(self) -> bool:
        """Whether a poll answers, so that a cycle may succeed; called once a cycle's time."""
        is_well = self._load() is not None
        self.cycle.calls.clear()  # a call without an answer cost the batch system nothing
        return is_well

    def run_once(self) -> CycleReport:
        """Run one cycle, publish its report and log it; no cycle runs while disabled."""
        self._clock_watch.look(self.clock(), self.monotonic(), self.cycle.disturbances)
        report = self._report_in_turn()
        away = report.failure in ("batch_system", "busy")
        self._unreachable = self._unreachable + 1 if away else 0
        self.publish(report)
        snapshot = report.snapshot
        logger.info(
            "cycle=done mode=%s policy=%s pending=%d running=%d writes=%d failure=%s fallback=%s",
            report.mode,
            report.policy,
            len(snapshot.pending) if snapshot else 0,
            len(snapshot.running) if snapshot else 0,
            report.writes,
            report.failure or "none",
            "yes" if report.fallback_reason else "no",
        )
        return report

    def _report_in_turn(self) -> CycleReport:
        """Run a cycle in a turn of the experiment and add the turn to its report."""
        if self.turns is None:
            return self._report()
        self._asked = self._whose_turn(self.turns)
        turn = self._carried_out(self._asked)
        changed, self._turn = turn != self._turn, turn
        self.cycle.left_to_site = turn.left_to_site
        report = self._report()
        left = turn.left_to_site and self.cycle.has_outstanding and not self.cycle.stood_by
        mode = "failed" if report.failure is not None or left else report.mode
        try:
            report = replace(report, experiment=self.turns.seen(turn))
            self.turns.note(turn, mode, self.clock(), report.misdelivered)
        except Exception:  # a fault in the report of a turn must not end the daemon
            logger.exception("experiment=untold")
        if changed:
            self._audit_turn(turn, mode)
        return report

    def _carried_out(self, turn: Turn) -> Turn:
        """Bring the turn's model into force.

        If the candidate is refused, the configured model decides. If a fault of the program keeps
        the model from deciding, the turn is the site's.
        """
        try:
            if turn != self._refused or self.monotonic() >= self._next_try:
                if self.bring_in(self.cycle, turn.candidate, turn.model_sha256):
                    return turn
                self._refused, self._next_try = turn, self.monotonic() + _REFUSED_FOR
            self.bring_in(self.cycle, "", "")
        except Exception:
            logger.exception("experiment=broken")
            return Turn(turn.arm, left_to_site=True, why="its model cannot be loaded")
        return Turn(turn.arm, why="the candidate cannot be used")

    def _turn_changed(self) -> bool:
        """Whether a turn has begun or an experiment has ended since the last cycle."""
        if self.turns is None:
            return False
        now, then = self._whose_turn(self.turns), self._asked
        return (now.left_to_site, now.candidate) != (then.left_to_site, then.candidate)

    def _whose_turn(self, turns: ExperimentTurns) -> Turn:
        """Whose turn it is; the site's if an error of the daemon hides it."""
        try:
            return turns.turn(self.clock(), *self.cycle.configured)
        except Exception:
            logger.exception("experiment=broken")
            return Turn(left_to_site=True, why="it is not known whose turn it is")

    def _audit_turn(self, turn: Turn, mode: str) -> None:
        """Add a line to the audit log; a full disk loses the line, not the cycle."""
        words = (
            turn.why or {OURS: "our turn", SITE: "the site's turn", "": "no experiment"}[turn.arm]
        )
        try:
            self.cycle.audit.record_turn(self.clock(), mode, self.cycle.policy.name, words)
        except SlurmRLError as error:
            logger.warning("experiment=unaudited reason=%s", error)

    def _report(self) -> CycleReport:
        """Run a cycle unless disabled; in shadow mode no job may carry a factor."""
        if self._disabled():
            return self._disabled_report()
        is_left = self.cycle.writes_nothing and self.cycle.has_outstanding
        # a turn ends several times a day, so its end waits while the batch system is busy
        if is_left and (self.cycle.settings.shadow or self._load() is not None):
            self._release_once("shadow")
        return self.cycle.run()

    def _release_once(self, why: str) -> tuple[int, str | None]:
        """How many factors were restored, and the failure if they were not."""
        try:
            return 0 if self.cycle.stands_by() else self.cycle.release().applied, None
        except Exception as error:  # an error of the daemon must not end the tries
            known, words = _described(error)
            logger.error("%s=yes release=failed reason=%s", why, words, exc_info=not known)
            return 0, words

    def leave(self) -> bool:
        """Restore every factor; try again while the batch system does not answer.

        The policy's memory is saved first: a stop may be cut short. On standby the factors are
        those of the daemon that acts.
        """
        try:
            self.cycle.remember()
        except Exception:  # a lost memory costs some good decisions and no job
            logger.exception("leaving=forgets")
        for attempt in range(_LEAVING_TRIES):
            try:
                if not self.cycle.has_outstanding or self.cycle.stands_by():
                    return True
                result = self.cycle.release()
            except Exception as error:  # tried again
                known, words = _described(error)
                shown = (attempt + 1, words)
                logger.warning("leaving=failed try=%d reason=%s", *shown, exc_info=not known)
                self.sleep(2.0**attempt)
                continue
            gone = len(result.rejected) - len(result.later)
            logger.info(
                "leaving=done released=%d gone=%d left=%d", result.applied, gone, len(result.later)
            )
            if not result.later:
                return True
            self.sleep(2.0**attempt)  # a refused write may succeed on retry
        logger.error("leaving=failed: run `slurm-rl release` when the batch system answers")
        return False

    def _pause(self, report: CycleReport) -> float:
        """Seconds from the beginning of this cycle to the next one."""
        if self._unanswered(report):
            return min(self.pace.longest * 2.0 ** min(self._unreachable, 10), LONGEST_PAUSE)
        if report.succeeded:
            return self.pace.longest
        return min(max(self.pace.longest, self.pace.owed(report)), LONGEST_PAUSE)

    def _disabled(self) -> bool:
        found = self._disable_watch.standing(self.disable_file, self.clock(), self.monotonic())
        if found != self._disabled_by:
            logger.info("disabled=%s", f"yes {found.words}" if found else "no")
        self._disabled_by = found
        return found is not None

    def _disabled_report(self) -> CycleReport:
        reset, failure = 0, None
        if self.cycle.has_outstanding:
            reset, failure = self._release_once("disabled")
        return CycleReport(
            time=0.0,
            mode="disabled",
            policy=self.cycle.policy.name,
            model_sha256=self.cycle.model_sha256,
            failure="batch_system" if failure else None,
            failure_reason=failure,
            adjustments={"reset": reset},
        )

    def _reload(self) -> None:
        self.reload_wanted.clear()
        self.cycle.remember()  # the fresh cycle reads it
        fresh = self.reload()
        if fresh is not None:
            self.cycle, self.pace, self.disable_file = fresh
            self._asked = Turn()


def _described(error: Exception) -> tuple[bool, str]:
    """Whether the program raised the error on purpose, and its text."""
    known = isinstance(error, SlurmRLError)
    return known, str(error) if known else f"{type(error).__name__}: {error}"
