"""The chain that renews a model: gain lost, candidate trained, compared, tried, adopted or not."""

from __future__ import annotations

import argparse
import math
from dataclasses import dataclass, field
from pathlib import Path

from slurm_rl_plugin.cli.progress import parts_bar
from slurm_rl_plugin.cli.what_if.candidate_training import KEPT_WEEKS, trained_candidate
from slurm_rl_plugin.cli.what_if.declared_experiment import DeclaredExperiment
from slurm_rl_plugin.cli.what_if.experiment_site import ExperimentSite
from slurm_rl_plugin.cli.what_if.experiment_start import ExperimentTerms, declare
from slurm_rl_plugin.cli.what_if.experiment_watch import kept_trial
from slurm_rl_plugin.cli.what_if.gain_watch import HISTORY_DAYS, GainWatch
from slurm_rl_plugin.cli.what_if.model_in_service import adopt, model_file
from slurm_rl_plugin.configuration import Configuration
from slurm_rl_plugin.domain.switchback import Declaration
from slurm_rl_plugin.errors import ConfigurationError
from slurm_rl_plugin.hook.experiment.files import OVER, RUNNING, ExperimentStanding
from slurm_rl_plugin.hook.experiment.model_gain import KeptGain
from slurm_rl_plugin.what_if.drift.weekly_costs import WEEK, weekly_costs

#: By replays of them a candidate may cost so many times what the model in service does.
_NO_BETTER = 1.0


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

    def step(self, now: float) -> RenewalStep:
        """Do it; each call does one.

        Args:
            now: seconds since the epoch.

        Raises:
            ConfigurationError: the site is not set up for it.
            SlurmRLError: accounting or a model cannot be read.
        """
        present = model_file(self.configuration)
        experiment = DeclaredExperiment(configuration=self.configuration)
        if experiment.files.declaration.exists():
            return self._of_experiment(experiment, present, now)
        watch = GainWatch(site=ExperimentSite(configuration=self.configuration, days=HISTORY_DAYS))
        kept = watch.look_now(now)
        if self.options.check or not (self.options.now or _is_lost(kept)):
            return _standing_step(kept)
        return self._candidate(watch, present, now)

    def _of_experiment(
        self, experiment: DeclaredExperiment, present: Path, now: float
    ) -> RenewalStep:
        """An experiment is declared: it goes on, or what it found is done."""
        declared, standing = experiment.declared()
        if standing.state == RUNNING:
            return RenewalStep(
                name="experiment",
                sentence=f"An experiment goes on: {declared.policy} against "
                f"{declared.against}; see `slurm-rl experiment status`.",
            )
        if not declared.candidate or standing.state != OVER:
            return RenewalStep(
                name="person",
                sentence=f"The experiment is {standing.state}: {standing.reason} Put it away with "
                "`slurm-rl experiment stop --as-configured`; then renew goes on.",
                needs_person=True,
            )
        if self.options.check:
            return RenewalStep(name="over", sentence=f"The experiment is over: {standing.reason}")
        return self._decided(experiment, declared, standing, present, now)

    def _decided(
        self,
        experiment: DeclaredExperiment,
        declared: Declaration,
        standing: ExperimentStanding,
        present: Path,
        now: float,
    ) -> RenewalStep:
        """The experiment of a candidate is over: it comes into service, or it does not."""
        trial = kept_trial(experiment, declared)
        watch = GainWatch(site=ExperimentSite(configuration=self.configuration))
        if trial is None or trial.gain() is None:
            experiment.files.put_away(int(now))
            watch.file.forget()  # what this model gains now is what can be had
            return RenewalStep(name="kept", sentence=f"The model stays: {standing.reason}")
        was = adopt(self.configuration, Path(declared.candidate), present, now)
        experiment.files.put_away(int(now))
        watch.file.forget()
        return RenewalStep(
            name="adopted",
            sentence=f"{declared.candidate} is in service as {present}: {trial.gain()} The model "
            f"before it is kept as {was}.",
        )

    def _candidate(self, watch: GainWatch, present: Path, now: float) -> RenewalStep:
        """Train a candidate, and begin its experiment where replays say that it is better."""
        if self.configuration.sections.hook.mode != "active":
            raise ConfigurationError(
                "[hook] mode is shadow, in which no candidate can be tried: set it to active."
            )
        candidate = trained_candidate(self.configuration, self.options, present, now)
        look = watch.site.look()
        assert look is not None  # of any age
        cluster = watch.site.cluster(look, str(candidate))
        with parts_bar("comparing the candidate", KEPT_WEEKS) as progress:
            costs = weekly_costs(
                cluster,
                look.now - KEPT_WEEKS * WEEK,
                KEPT_WEEKS,
                at_once=KEPT_WEEKS,
                progress=progress,
            )
        before, after = float(costs.by_site.sum()), float(costs.by_ours.sum())
        ratio = after / before if before > 0.0 else 1.0
        facts: dict[str, object] = {"candidate": str(candidate), "ratio": ratio}
        if not ratio < _NO_BETTER:
            watch.file.forget()
            return RenewalStep(
                name="no better",
                sentence=f"A model trained anew would have cost {ratio:.2f} of this one in the "
                f"{KEPT_WEEKS} weeks before, which it was not trained on: the load is what has "
                "changed. This model stays, and is measured by what it gains now.",
                facts=facts,
            )
        found = declare(
            DeclaredExperiment(configuration=self.configuration),
            ExperimentTerms(candidate=str(candidate), days=self.options.days),
        )
        facts["foretold"] = found.foretold
        return RenewalStep(
            name="declared",
            sentence=f"{candidate} costs {ratio:.2f} of the model in service by replays of "
            f"{KEPT_WEEKS} weeks that it was not trained on. Its experiment begins: "
            f"{len(found.experiment.blocks)} blocks; see `slurm-rl experiment status`.",
            facts=facts,
        )


def _is_lost(kept: KeptGain | None) -> bool:
    return kept is not None and kept.lost_at is not None


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
    if not math.isfinite(kept.promised):
        return RenewalStep(
            name="unknown",
            sentence="Accounting tells of too few weeks with a queue: nothing is known yet.",
            facts=facts,
        )
    lately = f", and {kept.lately:.2f} lately" if math.isfinite(kept.lately) else ""
    costs = (
        f"{kept.policy} cost {kept.promised:.2f} of the site's order in the {len(kept.reference)} "
        f"weeks before it was first seen in service{lately}"
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
