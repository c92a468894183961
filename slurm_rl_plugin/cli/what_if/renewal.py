"""The chain that renews a model: gain lost, candidate trained, compared, tried, adopted or not."""

from __future__ import annotations

import argparse
import math
from dataclasses import dataclass, field
from pathlib import Path

from slurm_rl_plugin.cli.progress import parts_bar
from slurm_rl_plugin.cli.tables import slurm_time
from slurm_rl_plugin.cli.what_if.candidate_training import KEPT_WEEKS, trained_candidate
from slurm_rl_plugin.cli.what_if.declared_experiment import DeclaredExperiment
from slurm_rl_plugin.cli.what_if.experiment_site import ExperimentSite
from slurm_rl_plugin.cli.what_if.experiment_start import ExperimentTerms, declare
from slurm_rl_plugin.cli.what_if.experiment_watch import kept_trial
from slurm_rl_plugin.cli.what_if.gain_watch import GainWatch, weeks_known
from slurm_rl_plugin.cli.what_if.model_in_service import adopt, model_file, named_as
from slurm_rl_plugin.cli.what_if.renewal_record import RenewalRecord, Renewed
from slurm_rl_plugin.configuration import Configuration
from slurm_rl_plugin.domain.switchback import Declaration
from slurm_rl_plugin.errors import ConfigurationError, SlurmRLError
from slurm_rl_plugin.hook.daemon.lock import reload_daemon
from slurm_rl_plugin.hook.experiment.files import OVER, RUNNING, ExperimentStanding
from slurm_rl_plugin.hook.experiment.model_gain import KeptGain
from slurm_rl_plugin.units import DAY
from slurm_rl_plugin.what_if.drift.evidence import FEWEST
from slurm_rl_plugin.what_if.drift.weekly_costs import WEEK, weekly_costs

#: By replays a candidate may cost so many times what the model in service does.
_NO_BETTER = 1.0
#: After a training that led to nothing, seconds until the next one.
_REST = WEEK


@dataclass(frozen=True, slots=True, kw_only=True)
class RenewalStep:
    """What one call of `renew` did.

    Attributes:
        name: for programs.
        sentence: for people.
        needs_person: nothing goes on by itself.
        facts: figures beside it.
    """

    name: str
    sentence: str
    needs_person: bool = False
    facts: dict[str, object] = field(default_factory=dict)


@dataclass(slots=True, kw_only=True)
class Renewal:
    """Does the step that is due.

    Attributes:
        configuration: of the site.
        options: of the verb.
    """

    configuration: Configuration
    options: argparse.Namespace

    @property
    def record(self) -> RenewalRecord:
        """What was done before."""
        return RenewalRecord(state_file=Path(self.configuration.sections.hook.state_file))

    @property
    def watch(self) -> GainWatch:
        """Of what the model in service gains."""
        return GainWatch(site=ExperimentSite(configuration=self.configuration))

    @property
    def experiment(self) -> DeclaredExperiment:
        """By its files."""
        return DeclaredExperiment(configuration=self.configuration)

    def step(self, now: float) -> RenewalStep:
        """Do it; each call does one.

        Args:
            now: seconds since the epoch.

        Raises:
            ConfigurationError: the site is not set up for it, or another call is at work.
            SlurmRLError: accounting or a model cannot be read.
        """
        if self.options.check:
            return self._told(now)
        with self.record.alone():
            if self.experiment.files.declaration.exists():
                return self._of_experiment(now)
            kept = self.watch.look_now(now)
            if self.options.watch or not (self.options.now or _is_lost(kept)):
                return _standing_step(kept)
            return self._candidate(now)

    def _told(self, now: float) -> RenewalStep:
        """How it stands; nothing is replayed, written or changed."""
        if self.experiment.files.declaration.exists():
            return self._of_experiment(now)
        kept, watch = self.watch.file.read(), self.watch
        if kept is None or not kept.is_of(*watch.site.model()):
            return RenewalStep(
                name="unknown",
                sentence="Nobody has looked at what the model in service gains yet: `slurm-rl "
                "renew --watch` does.",
            )
        return _standing_step(kept)

    def _of_experiment(self, now: float) -> RenewalStep:
        """An experiment is declared: it goes on, or what it found is done."""
        declared, standing = self.experiment.declared()
        if standing.state == RUNNING:
            return _running_step(declared, standing, now)
        is_ours = self.record.read().experiment == declared.name
        if not is_ours or standing.state != OVER:
            return RenewalStep(
                name="person",
                sentence=f"The experiment is {standing.state}: {standing.reason} Put it away with "
                "`slurm-rl experiment stop --as-configured`; then renew goes on.",
                needs_person=True,
            )
        if self.options.check or self.options.watch:
            return RenewalStep(name="over", sentence=f"The experiment is over: {standing.reason}")
        return self._decided(declared, standing, now)

    def _decided(
        self, declared: Declaration, standing: ExperimentStanding, now: float
    ) -> RenewalStep:
        """The experiment of a candidate is over: it comes into service, or it does not."""
        trial = kept_trial(self.experiment, declared)
        if trial is None or trial.gain() is None:
            self.experiment.files.put_away(int(now))
            self.watch.file.forget()  # what this model gains now is what can be had
            return RenewalStep(name="kept", sentence=f"The model stays: {standing.reason}")
        present = model_file(self.configuration)
        was = adopt(declared, present, now)
        self.experiment.files.put_away(int(now))
        self.watch.file.forget()
        told = reload_daemon(self.record.state_file)
        more = "" if told else " No daemon of this host was told: reload it."
        return RenewalStep(
            name="adopted",
            sentence=f"The candidate lies as {present}: {trial.gain()} The model before it is kept "
            f"as {was}.{more}",
            needs_person=not told,
            facts={"model_sha256": declared.model_sha256},
        )

    def _candidate(self, now: float) -> RenewalStep:
        """Train a candidate, and begin its experiment where replays say that it is better."""
        last = self.record.read()
        if not self.options.now and 0.0 <= now - last.refused < _REST:  # none by a wrong clock
            return RenewalStep(
                name="rests",
                sentence=f"The gain is lost, and no candidate was let on trial at "
                f"{slurm_time(last.refused)}: {last.why} It is tried again a week later, or with "
                "--now.",
            )
        present = model_file(self.configuration)
        if self.configuration.sections.hook.mode != "active":
            raise ConfigurationError(
                "[hook] mode is shadow, in which no candidate can be tried: set it to active."
            )
        # whatever ends this process, a lack of memory say, would end it each night
        self.record.write(Renewed(refused=now, why="The try was cut short."))
        try:
            return self._tried(present, now)
        except SlurmRLError as error:
            self.record.write(Renewed(refused=now, why=str(error)))
            raise

    def _tried(self, present: Path, now: float) -> RenewalStep:
        file = trained_candidate(self.configuration, self.options, present, now)
        candidate = named_as(self.configuration, file)
        ratio = self._cost(candidate)
        facts: dict[str, object] = {"candidate": candidate, "ratio": ratio}
        if not ratio < _NO_BETTER:
            self.watch.file.forget()
            why = (
                f"A model trained anew would have cost {ratio:.2f} of this one in the {KEPT_WEEKS} "
                "weeks before, which it was not trained on: the load is what has changed."
            )
            self.record.write(Renewed(refused=now, why=why))
            return RenewalStep(
                name="no better",
                sentence=f"{why} This model stays, and is measured by what it gains now.",
                facts=facts,
            )
        terms = ExperimentTerms(candidate=candidate, days=self.options.days, day=self.options.day)
        found = declare(self.experiment, terms)
        self.record.write(Renewed(experiment=found.experiment.name))
        facts["foretold"] = found.foretold
        return RenewalStep(
            name="declared",
            sentence=f"{candidate} costs {ratio:.2f} of the model in service by replays of "
            f"{KEPT_WEEKS} weeks that it was not trained on. Its experiment begins: "
            f"{len(found.experiment.blocks)} blocks; see `slurm-rl experiment status`. It needs "
            "slurm-rl-experiment.service.",
            facts=facts,
        )

    def _cost(self, candidate: str) -> float:
        """What a candidate would have cost lately over the model in service; 1 where nobody waits.

        Raises:
            SlurmRLError: accounting or a model cannot be read.
        """
        watch = self.watch
        look = watch.looked_at(KEPT_WEEKS)
        assert look is not None  # of any age
        begin = look.now - KEPT_WEEKS * WEEK
        with parts_bar("comparing the candidate", KEPT_WEEKS) as progress:
            costs = weekly_costs(
                watch.site.cluster(look, candidate),
                begin,
                KEPT_WEEKS,
                at_once=KEPT_WEEKS,
                progress=progress,
            )
        before, after = float(costs.by_site.sum()), float(costs.by_ours.sum())
        return after / before if before > 0.0 else _NO_BETTER


def _is_lost(kept: KeptGain | None) -> bool:
    return kept is not None and kept.lost_at is not None


def _running_step(declared: Declaration, standing: ExperimentStanding, now: float) -> RenewalStep:
    """It goes on, or nobody looks after it any more."""
    words = f"{declared.policy} against {declared.against}; see `slurm-rl experiment status`."
    if now - max(standing.looked, declared.begin) > DAY:
        return RenewalStep(
            name="person",
            sentence=f"An experiment is declared, and nobody has looked at it for a day: {words} "
            "Start slurm-rl-experiment.service.",
            needs_person=True,
        )
    return RenewalStep(name="experiment", sentence=f"An experiment goes on: {words}")


def _standing_step(kept: KeptGain | None) -> RenewalStep:
    """How the gain stands."""
    if kept is None:
        return RenewalStep(name="unknown", sentence="No replay plays the model: nothing is known.")
    facts: dict[str, object] = {
        "promised": _finite(kept.promised),
        "lately": _finite(kept.lately),
        "evidence": kept.evidence,
        "weeks": len(kept.later),
    }
    if weeks_known(kept) < FEWEST or not math.isfinite(kept.promised):
        return RenewalStep(
            name="unknown",
            sentence="Too few weeks with a queue are known: nothing is said yet.",
            facts=facts,
        )
    lately = f", and {kept.lately:.2f} lately" if math.isfinite(kept.lately) else ""
    costs = (
        f"{kept.policy} cost {kept.promised:.2f} of the site's order in the {len(kept.reference)} "
        f"weeks of reference{lately}"
    )
    if kept.lost_at is not None:
        return RenewalStep(name="lost", sentence=f"{costs}: train again.", facts=facts)
    return RenewalStep(
        name="as promised",
        sentence=f"{costs}; {kept.evidence:.0%} of the evidence that says its gain is lost.",
        facts=facts,
    )


def _finite(value: float) -> float | None:
    return value if math.isfinite(value) else None
