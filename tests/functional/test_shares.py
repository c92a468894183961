"""Shares of a site in every command, and what a flooded or robbed account gets."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from itertools import count
from pathlib import Path

import numpy as np
import pytest

from slurm_rl_plugin.domain import Decision, Memory, QueueSnapshot, RunningJobs, StartedJobs
from slurm_rl_plugin.domain.goals import Goals
from slurm_rl_plugin.features.site import dynamic_job_features, share_doublings
from slurm_rl_plugin.hook.audit.log import AuditLog
from slurm_rl_plugin.hook.cycle.cycle import Cycle
from slurm_rl_plugin.hook.cycle_report import CycleSettings
from slurm_rl_plugin.hook.memory.carried_factors import StateFile
from slurm_rl_plugin.hook.rails.guard_rails import UntouchedJobs
from slurm_rl_plugin.units import DAY, HOUR, MINUTE, FloatArray
from tests.bench.shares.flooded_site import FLOODS, SHARES, answer, asked_both, write_site
from tests.functional.small_site import write_busy_site
from tests.functional.typed import Typed
from tests.unit.hook.queues import QueueInMemory, job_table, pending_jobs

#: Each account has a third of the work.
_ACCOUNTS = "add account 1 Fairshare=90\nadd account 2 Fairshare=6\nadd account 3 Fairshare=4\n"
_BY_HAND = ("--shares", "1=.5,2=.25,3=.25")
_CHANGE = ("--change", "PriorityWeightJobSize=1")
_DERIVED = "Shares: none configured; derived from past work, which promises nothing."
_FROM_THE_SITE = "Shares: of the cluster's accounts."
_AS_GIVEN = "Shares: as given."


class AtTheSite(Typed):
    """Commands on the log of a small site."""

    def __call__(self, verb: object, *words: object) -> tuple[int, str, str]:
        """With the log."""
        return super().__call__(verb, "log.swf", *words)


@pytest.fixture
def typed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Typed:
    monkeypatch.chdir(tmp_path)
    write_busy_site(
        tmp_path,
        "PriorityWeightFairshare=10000",
        "PriorityWeightAge=1000",
        "PriorityDecayHalfLife=7-0",
    )
    (tmp_path / "sacctmgr.script").write_text(_ACCOUNTS)
    return AtTheSite(capsys, after=("--cluster", "."))


def _waits_of_evaluate(typed: Typed, drop: tuple[int, int], *words: str) -> dict[str, float]:
    cut = ("--drop", ",".join(map(str, drop)))
    system = ("--policy", "multifactor", "--estimates", "requested")
    found = typed.json("evaluate", *system, *cut, *words)
    accounts = found["policies"]["multifactor"]["accounts"]
    return {name: each["mean_wait"] for name, each in accounts.items()}


def test_evaluate_and_what_if_give_each_account_the_same_wait(typed: Typed, tmp_path: Path) -> None:
    found = typed.json("what-if", *_CHANGE)
    (variant,) = found["variants"].values()
    now = {
        name: each["figures"]["mean_wait"]["before"]
        for name, each in variant["groups"]["account"].items()
    }
    jobs = found["log"]["jobs"]
    last = int(jobs * 0.05)
    drop = (jobs - last - found["log"]["counted_jobs"], last)
    waits = _waits_of_evaluate(typed, drop)
    assert waits == now
    assert 2 * waits["1"] < waits["3"]  # the site's shares act
    by_hand = _waits_of_evaluate(typed, drop, *_BY_HAND)
    assert by_hand["2"] != waits["2"]
    (tmp_path / "sacctmgr.script").unlink()
    assert _waits_of_evaluate(typed, drop)["1"] > 2 * waits["1"]
    assert _waits_of_evaluate(typed, drop, *_BY_HAND) == by_hand


@pytest.mark.parametrize("words", [("evaluate", "--policy", "fifo"), ("what-if", *_CHANGE)])
def test_text_and_json_say_what_gives_the_shares(
    typed: Typed, tmp_path: Path, words: tuple[str, ...]
) -> None:
    def shares_said(*more: str) -> tuple[list[str], str]:
        lines = typed.out(*words, *more).splitlines()
        sentences = [line for line in lines if line.startswith("Shares: ")]
        return sentences, typed.json(*words, *more)["log"]["shares_from"]

    assert shares_said() == ([_FROM_THE_SITE], "cluster")
    assert shares_said(*_BY_HAND) == ([_AS_GIVEN], "options")
    protocol = typed.out("evaluate", "--policy", "fifo", "--protocol", "continuous")
    assert protocol.splitlines()[0] == _FROM_THE_SITE
    (tmp_path / "sacctmgr.script").write_text("add account 1 Fairshare=90\n")
    errors = typed("evaluate", "--policy", "fifo")[2]
    assert "the cluster gives these accounts no shares: 2, 3; its shares are not used." in errors
    (tmp_path / "sacctmgr.script").unlink()
    assert shares_said() == ([_DERIVED], "work")


def test_tune_looks_after_fairness_to_shares_of_the_site_alone(
    typed: Typed, tmp_path: Path
) -> None:
    search = ("tune", "--generations", "1")
    found = typed.json(*search)
    assert found["goals"]["fairness"] == 0.5
    (tmp_path / "sacctmgr.script").unlink()
    output = typed.out(*search)
    assert output.count(_DERIVED) == 1
    assert "This search ignores fairness and has no bound on misdelivery" in output


def test_train_gives_fairness_to_derived_shares_no_weight(typed: Typed, tmp_path: Path) -> None:
    (tmp_path / "site.toml").write_text("[reward]\nfairness = 0.5\n")
    words = ("train", "--config", "site.toml", "-o", "site.onnx", "--steps", "1", "--hidden", "2")
    _, output, errors = typed(*words)
    assert f"log.swf: {_FROM_THE_SITE}" in output
    assert "fairness" not in errors
    (tmp_path / "sacctmgr.script").unlink()
    _, output, errors = typed(*words)
    assert f"log.swf: {_DERIVED}" in output
    assert "[reward] fairness has no weight in this training: shares of log.swf are" in errors


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("flooded")
    write_site(folder, days=4.0)
    return folder


def test_both_commands_agree_to_the_digit_and_a_small_influence_changes_little(site: Path) -> None:
    now, ours, beside = asked_both(site, 24.0)
    assert ours == beside
    assert now.keys() == set(SHARES)
    others = [name for name in SHARES if name != FLOODS]
    assert all(ours[name].mean_wait < 0.1 * ours[FLOODS].mean_wait for name in others)
    assert min(ours[name].ratio for name in others) > 0.95


def waits_without_shares(site: Path) -> dict[str, float]:
    """Mean wait of each account under our order alone, for a site that wants no shares in it."""
    (site / "no-shares.toml").write_text("[hook]\ninfluence_hours = 0\n[goals]\nshares = 0\n")
    words = ("--cluster", ".", "--account-of", "accounts.csv", "--config", "no-shares.toml")
    found = answer(site, "evaluate", "log.swf", *words, "--policy", "default", "--json")
    accounts = found["policies"]["default"]["accounts"]
    return {name: accounts[name]["mean_wait"] for name in SHARES}


def test_our_order_alone_keeps_shares_unless_the_site_wants_none(site: Path) -> None:
    now, ours, beside = asked_both(site, 0.0)
    assert ours == beside
    assert ours["physics"].mean_wait < 1.5 * now["physics"].mean_wait
    assert ours["physics"].mean_wait < 0.1 * ours[FLOODS].mean_wait
    without = waits_without_shares(site)
    assert without["physics"] > 3.0 * now["physics"].mean_wait
    assert without[FLOODS] < now[FLOODS].mean_wait


BEGIN = 20_000 * DAY
PROCESSORS = 4


class SharePolicy:
    """The share and the wait in the points of the default model, and nothing else."""

    name = "shares"

    def decide(self, snapshot: QueueSnapshot, memory: Memory | None = None) -> Decision:
        account = snapshot.pending.jobs.account
        wait, _, _, shares = dynamic_job_features(
            snapshot.accrued_wait,
            0.0,
            share_doublings(snapshot.shares, snapshot.usage)[account],
            0,
            12,
        )
        return Decision(scores=wait - shares)


@dataclass
class LyingSite(QueueInMemory):
    """Four processors; arrays of arts, one or four, and four of physics always wait.

    The reported usage decays by half in a week, and counts what arts uses four times. By it
    4 a / 0.6 = (1 - a) / 0.4 if arts gets a = 0.27 of the service, with a share of 0.6; and
    a = 0.0046 with a share of 0.018.
    """

    share: float = 0.6
    length: float = 8 * HOUR
    arrays: int = 4
    submit: FloatArray = field(default_factory=lambda: np.full(8, BEGIN))
    started: list[tuple[float, float, int]] = field(default_factory=list)
    used: FloatArray = field(default_factory=lambda: np.array([0.6, 0.4]))

    def snapshot(self) -> QueueSnapshot:
        submit, start = (np.array([each[place] for each in self.started]) for place in (0, 1))
        account = np.array([each[2] for each in self.started], dtype=np.int64)
        table = replace(job_table(len(submit)), submit=submit, eligible=submit, account=account)
        self.running = RunningJobs(jobs=table, start=start)
        jobs = replace(
            self.pending.jobs,
            submit=self.submit,
            eligible=self.submit,
            account=np.repeat([0, 1], [self.arrays, 8 - self.arrays]),
            time_limit=np.full(8, self.length),
        )
        return replace(
            super().snapshot(),
            pending=replace(self.pending, jobs=jobs, tasks=np.full(8, 50)),
            accounts=("arts", "physics"),
            shares=np.array([self.share, 1.0 - self.share]),
            usage=self.used * [4, 1] / (self.used @ [4, 1]),
        )

    def go_on(self, order: Sequence[int]) -> list[int]:
        """Start the first jobs of an order, wait ten minutes; processors of each account."""
        for place in order[: PROCESSORS - len(self.started)]:
            self.started.append((float(self.submit[place]), self.now, int(place >= self.arrays)))
            self.submit[place] = self.now  # another one comes in its place
        account = [each[2] for each in self.started]
        self.now += 10 * MINUTE
        self.started = [each for each in self.started if each[1] + self.length > self.now]
        got = [account.count(0), account.count(1)]
        self.used = self.used * 0.5 ** (10 * MINUTE / (7 * DAY)) + got
        return got


def cycle_of(folder: Path, site: QueueInMemory, settings: CycleSettings) -> Cycle:
    """Cycles of a site, as the daemon runs them."""
    ticks = count()
    return Cycle(
        batch_system=site,
        policy=SharePolicy(),
        model_sha256="",
        settings=settings,
        guard_rails=(),
        untouched=UntouchedJobs(),
        state=StateFile(folder / "state.json"),
        audit=AuditLog(None),
        monotonic=lambda: next(ticks) * 1e-6,
    )


def service_of(folder: Path, goals: Goals, days: int, site: LyingSite | None = None) -> FloatArray:
    """Part of each day's service that arts got, shape [days]."""
    site = site or LyingSite(pending_jobs([0] * 8), now=BEGIN)
    cycle = cycle_of(folder, site, CycleSettings(goals=goals))
    found = np.zeros((days, 2))
    for day in range(days):
        for _ in range(144):
            found[day] += site.go_on(cycle.run().order)
    return found[:, 0] / found.sum(axis=1)


def test_it_gets_nine_tenths_of_its_share_back(tmp_path: Path) -> None:
    found = service_of(tmp_path, Goals(shares=12.0), 42)
    assert found[:7].mean() < 0.3
    assert found[28:].mean() == pytest.approx(0.9 * 0.6, abs=0.06)


def test_it_stays_robbed_where_shares_do_not_count(tmp_path: Path) -> None:
    assert service_of(tmp_path, Goals(shares=0.0), 21)[7:].mean() == pytest.approx(0.27, abs=0.02)


def test_a_small_account_gets_most_of_its_share_back(tmp_path: Path) -> None:
    site = LyingSite(pending_jobs([0] * 8), now=BEGIN, share=0.018, length=HOUR, arrays=1)
    found = service_of(tmp_path, Goals(shares=12.0), 29, site) / 0.018
    assert found[1:8].mean() < 0.4
    assert found[10:].mean() > 0.8


@dataclass
class TwoQueues(QueueInMemory):
    """Wide and narrow jobs; one of each starts every ten minutes.

    In the site's turns they wait three hours each: 18 of each kind are pending.

    Attributes:
        waits: hours that wide and narrow jobs wait which start.
    """

    waits: tuple[float, float] = (3.0, 3.0)

    def snapshot(self) -> QueueSnapshot:
        self.now += 10 * MINUTE
        width = np.repeat([PROCESSORS, 1], 18)
        table = replace(job_table(36), processors=width, eligible=np.full(36, self.now - HOUR))
        starts = replace(
            table.select(np.array([0, 18])), eligible=self.now - HOUR * np.array(self.waits)
        )
        return replace(
            super().snapshot(),
            pending=replace(self.pending, jobs=table),
            started=StartedJobs(jobs=starts, start=np.full(2, self.now)),
        )


@pytest.mark.parametrize(
    ("wide", "narrow", "given", "lifted"),
    [
        (6.0, 1.0, {}, True),
        (3.3, 1.0, {}, False),  # no more than 1.2 times as long
        (6.0, 6.0, {}, False),  # the load has grown
        (6.0, 1.0, {"half or more": 6.0 * HOUR}, False),
    ],
)
def test_jobs_that_wait_longer_than_in_the_sites_turns_are_lifted(
    tmp_path: Path, wide: float, narrow: float, given: dict[str, float], lifted: bool
) -> None:
    site = TwoQueues(pending_jobs([0] * 36), now=BEGIN)
    settings = CycleSettings(wait_targets=given)
    cycle = cycle_of(tmp_path, site, settings)
    for turn in range(24):  # six days of an experiment
        cycle.left_to_site = turn % 2 == 0
        for _ in range(36):
            report = cycle.run()
    assert not any(report.lifts.groups.values())
    cycle.remember()
    cycle = cycle_of(tmp_path, site, settings)  # the experiment is over, the daemon a new one
    site.waits = (wide, narrow)
    for _ in range(15 * 144):
        report = cycle.run()
    lifts = report.lifts.groups
    assert lifts["half or more"] == (2.0 if lifted else 0.0)
    assert lifts["one processor"] == 0.0
