"""The checks of `slurm-rl check`: the batch system, the reserve, the model, and the services."""

from __future__ import annotations

import json
import math
import os
import re
import socket
import stat
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import numpy as np

from slurm_rl_plugin.batch_systems.port import (
    FAIL,
    PASS,
    WARN,
    BatchSystem,
    Check,
    FactorChange,
    OfferingSite,
    SchedulerFacts,
    SchedulerLoad,
)
from slurm_rl_plugin.brokers.live.job_document import job_request
from slurm_rl_plugin.configuration import Configuration
from slurm_rl_plugin.configuration.sections import OfferSection
from slurm_rl_plugin.domain import QueueSnapshot
from slurm_rl_plugin.domain.goals import POINTS_A_DOUBLING
from slurm_rl_plugin.errors import BatchSystemError, ConfigurationError, JobNotAccepted, PolicyError
from slurm_rl_plugin.features.site import SITE
from slurm_rl_plugin.hook.cycle.cycle import Cycle, controller_fault
from slurm_rl_plugin.hook.cycle_report import NOBODY_IN_CHARGE, CycleSettings
from slurm_rl_plugin.hook.daemon.lock import daemon_runs
from slurm_rl_plugin.hook.live_state import LiveState
from slurm_rl_plugin.hook.memory.carried_factors import StateFile
from slurm_rl_plugin.hook.memory.disable_file import read_disable_file
from slurm_rl_plugin.hook.outstanding import outstanding_at
from slurm_rl_plugin.hook.rails.reserve import ReserveSettings
from slurm_rl_plugin.metrics.pages import check_textfile
from slurm_rl_plugin.policies.port import Policy
from slurm_rl_plugin.policies.q_network import QNetworkPolicy
from slurm_rl_plugin.services.configured_site import chosen_batch_system, daemon_state
from slurm_rl_plugin.services.drawn_queue import queue_beside
from slurm_rl_plugin.services.hook import LoadedPolicy, load_policy
from slurm_rl_plugin.services.offer_service import build_forwarder, offering_site, utility_model
from slurm_rl_plugin.services.queue_reading import QueueLook, amount_words, look_at_queue
from slurm_rl_plugin.serving.clients import read_token
from slurm_rl_plugin.serving.tls import ServedTls

#: A job that nearly every site accepts.
_SMALL = {"processors": 1, "time_limit": 60}
#: Below this part of what the site's own priorities differ by, bounded influence changes little.
_LITTLE = 0.1
#: Unknown names that the line shows.
_SHOWN = 5
#: Waiting jobs that a decision is tried on at least.
FEWEST_JOBS = 1000
_REPEATS = 3


def checks_of(
    configuration: Configuration, offers: list[Check], now: float, jobs: int | None = None
) -> list[Check]:
    """Every check; where the batch system does not answer those on it are one failure.

    `offers` need files that are closed to the daemon's account. A decision is tried on `jobs` jobs.
    """
    checks = [
        *_files(configuration, now),
        *_named({"outstanding": outstanding_of(configuration)}),
        *_metrics(configuration),
        *offers,
    ]
    try:
        look = look_at_queue(configuration)
        system = look.cycle.batch_system
        facts, load = system.facts(), system.load()
        days = configuration.sections.batch_system.history_days
        own = system.own_checks(wants_runs=look.loaded.learns_from_runs and days > 0)
        own = [*own, *_exemptions(configuration, look)]
    except BatchSystemError as error:
        failed = Check(FAIL, "batch system", str(error))
        adapter = _named({"adapter": _adapter(configuration)})
        return [failed, *adapter, *checks, *_model(configuration)]
    return [
        *_site(configuration, facts, load, look.cycle),
        *_scheduler(configuration, look),
        *_reserve(configuration, look),
        *own,
        *checks,
        *_model(configuration, look, jobs),
    ]


#: PASS, WARN or FAIL, and what a check found with the fix.
Finding = tuple[str, str]


def _named(findings: Mapping[str, Finding]) -> list[Check]:
    return [Check(result, name, what) for name, (result, what) in findings.items()]


def _site(
    configuration: Configuration, facts: SchedulerFacts, load: SchedulerLoad, cycle: Cycle
) -> list[Check]:
    hours = float(configuration.sections.hook.influence_hours)
    lever = (PASS, facts.write_cost or facts.lever)
    busy = (PASS, "the batch system is not overloaded")
    if load.struggles is not None:
        busy = (WARN, f"{load.struggles}: cycles do nothing meanwhile")
    return _named(
        {
            "batch system": _release(facts, cycle.batch_system),
            "adapter": _adapter(configuration),
            "lever": lever if facts.harm is None else (FAIL, facts.harm),
            "influence": _influence(hours, facts),
            "fair share": _shares(configuration, facts, cycle.policy),
            "controller": _controller(configuration.cycle_settings, facts),
            "load": busy,
        }
    )


def _adapter(configuration: Configuration) -> Finding:
    choice = chosen_batch_system(configuration)
    return PASS if choice.sure else WARN, f"{choice.kind.title}: {choice.because}"


def _release(facts: SchedulerFacts, system: BatchSystem) -> Finding:
    what = f"release {facts.release} by {system.name}"
    numbers = tuple(int(number) for number in re.findall(r"\d+", facts.release)[:2])
    if facts.tried is None or facts.tried[0] <= numbers <= facts.tried[1]:
        return PASS, what
    tried = " to ".join(f"{year}.{month:02d}" for year, month in facts.tried)
    return WARN, f"{what}: tried with {tried}; watch it in shadow mode first"


def _controller(settings: CycleSettings, facts: SchedulerFacts) -> Finding:
    if (fault := controller_fault(settings, facts)) is not None:
        return FAIL, fault
    if facts.in_charge or not settings.beside_controllers:
        return PASS, "the daemon of this host acts"
    if facts.in_charge is None:
        return WARN, NOBODY_IN_CHARGE
    return WARN, "another host's is in charge: a daemon here is on standby"


def _influence(hours: float, facts: SchedulerFacts) -> Finding:
    if facts.no_influence is not None:
        return WARN if hours else PASS, facts.no_influence
    if not hours:
        return PASS, "full: the daemon's order comes first"
    points = hours * facts.points_an_hour
    if points < 1.0:
        mend = "set influence_hours = 0, or raise PriorityWeightAge"
        return FAIL, f"{hours:g} h of age add {points:.2f} points here: {mend}"
    return PASS, f"{hours:g} h of age: {points:.0f} points"


def _shares(configuration: Configuration, facts: SchedulerFacts, policy: Policy) -> Finding:
    """Whether accounts' shares still count next to our order, or in it."""
    hours = float(configuration.sections.hook.influence_hours)
    points = configuration.goals.shares
    in_order = isinstance(policy, QNetworkPolicy) and policy.schema == SITE and points != 0.0
    if in_order and (facts.no_influence is not None or not hours):
        weight = f"{POINTS_A_DOUBLING if points is None else points:g} points a doubling of usage"
        where = " where shares differ" if points is None else ""
        return PASS, f"shares count in the daemon's order: {weight} over share{where}"
    if facts.no_influence is not None:
        what = "the daemon's order comes first: shares decide at most between jobs of equal score"
        return WARN, what
    if not facts.fairshare_points:
        return PASS, "the site's own priority has no term for accounts' shares"
    theirs = f"PriorityWeightFairshare = {facts.fairshare_points:.0f}"
    if not hours:
        what = f"accounts' shares will not count: influence_hours = 0 overrides {theirs}"
        return WARN, f"{what}; set influence_hours = 72 to let them count"
    ours = f"the first place adds {hours * facts.points_an_hour:.0f} points"
    if hours * facts.points_an_hour > facts.fairshare_points:
        what = f"the daemon's order can outweigh accounts' shares: {ours}, more than {theirs}"
        most = math.floor(10.0 * facts.fairshare_points / facts.points_an_hour) / 10.0
        mend = f"set influence_hours to {most:g} or less" if most else "raise it"
        return WARN, f"{what}; {mend}"
    return PASS, f"accounts' shares count: {ours}, next to {theirs}"


def _scheduler(configuration: Configuration, look: QueueLook) -> Iterator[Check]:
    snapshot = look.considered.plan.snapshot
    waiting, running = len(snapshot.pending), len(snapshot.running)
    yield Check(PASS, "queue", f"{waiting} jobs wait, {running} run")
    if look.considered.plan.fallback_reason is not None:
        yield Check(FAIL, "decision", look.considered.plan.fallback_reason)
    yield from _weights(configuration, look)
    yield from _others_factors(configuration, look)
    runs = daemon_runs(Path(configuration.sections.hook.state_file))
    found = (WARN, "not tried: a daemon runs, see `slurm-rl status`")
    if runs is False and not look.cycle.stands_by():  # else it may just write the job of the test
        found = _right_to_write(look)
    yield from _named({"right to write": found})


def _others_factors(configuration: Configuration, look: QueueLook) -> Iterator[Check]:
    pending = look.considered.plan.snapshot.pending
    state = Path(configuration.sections.hook.state_file)
    ours = StateFile(state).read()
    if ours is None:
        return
    theirs = set(pending.jobs.job_id[pending.factor != 0].tolist()) - ours
    if theirs:
        lever = look.cycle.batch_system.facts().lever
        what = (
            f"{lever} of {len(theirs)} of {len(pending)} waiting jobs (job {min(theirs)} first) is "
            f"not in {state}: stop the other daemon or program that writes it, or each undoes the "
            "other's order"
        )
        yield Check(WARN, "other writer", what)


def _weights(configuration: Configuration, look: QueueLook) -> Iterator[Check]:
    """Warn where the daemon's order is lost among the site's own priorities."""
    facts, plan = look.cycle.batch_system.facts(), look.considered.plan
    hours = facts.bound(float(configuration.sections.hook.influence_hours))
    native = plan.snapshot.pending.native_priority[plan.order]
    if not hours or len(native) < 2:
        return
    spread, points = int(native.max() - native.min()), hours * facts.points_an_hour
    if points < _LITTLE * spread:
        what = (
            f"the daemon's order adds at most {points:.0f} points, and the site's own priorities "
            f"of the waiting jobs differ by {spread}, so it moves few jobs: raise influence_hours"
        )
        yield Check(WARN, "weights", what)


def _right_to_write(look: QueueLook) -> Finding:
    """Write a job the factor that it has: nothing changes, and the answer says whether we may."""
    plan = look.considered.plan
    system = look.cycle.batch_system
    if not plan.order:
        return WARN, "not tried: no job to try it on without a change"
    place = plan.order[-1]
    job = int(plan.snapshot.pending.jobs.job_id[place])
    factor = int(plan.snapshot.pending.factor[place])
    try:
        report = system.apply([FactorChange(job_id=job, old=factor, new=factor)])
    except BatchSystemError as error:
        return FAIL, str(error)
    words = report.rejected.get(job)
    if words is not None:
        return WARN, f"job {job}: {words}"
    return PASS, f"job {job} was written the factor that it has"


def _exemptions(configuration: Configuration, look: QueueLook) -> Iterator[Check]:
    """Whether the cluster knows the exempt names; no check if there are none or it lists none."""
    rails, system = configuration.sections.guard_rails, look.cycle.batch_system
    exempt = {
        "account": rails.exempt_accounts,
        "partition": rails.exempt_partitions,
        "QOS": rails.exempt_qos,
    }
    if not any(exempt.values()):
        return
    known = dict(zip(exempt, system.site_names(), strict=True))
    listed = {what: names for what, names in exempt.items() if names and known[what] is not None}
    unknown = [
        f"{what} {name}"
        for what, names in listed.items()
        for name in names
        if name not in (known[what] or ())
    ]
    if unknown:
        more = f" and {len(unknown) - _SHOWN} more" if len(unknown) > _SHOWN else ""
        what = (
            f"there is no {', '.join(unknown[:_SHOWN])}{more} here, so no job is exempt by it: "
            "write [guard_rails] exempt_* as the batch system does"
        )
        yield Check(WARN, "exemptions", what)
    elif listed:
        yield Check(PASS, "exemptions", f"{', '.join(listed)}: all names are known here")


def _reserve(configuration: Configuration, look: QueueLook) -> Iterator[Check]:
    """Every check; one where nothing is to be kept free."""
    state = Path(configuration.sections.hook.state_file)
    runs = daemon_runs(state)
    if configuration.reserve is None:
        yield Check(PASS, "reserve", "off: no processors are kept free of batch jobs")
        return
    yield Check(PASS, "reserve policy", _wanted(look, configuration.reserve))
    findings = _sizes(configuration.reserve, look.considered.plan.snapshot)
    yield from (Check(result, "reserve size", what) for result, what in findings)
    system = look.cycle.batch_system
    try:
        writes = runs is False and not look.cycle.stands_by()
        yield from system.limit_checks(writes=writes)
    except BatchSystemError as error:
        yield Check(FAIL, "reserve", str(error))


def _wanted(look: QueueLook, reserve: ReserveSettings) -> str:
    policy = look.cycle.policy
    if getattr(policy, "holds", False) or getattr(policy, "reserve", None):
        return f"{policy.name} says how many processors to keep free"
    return f"{policy.name} asks for no number: {reserve.most} processors are kept free"


def _sizes(reserve: ReserveSettings, snapshot: QueueSnapshot) -> Iterator[Finding]:
    """Whether the numbers of [reserve] fit the cluster."""
    yield from (_resource(name, reserve, snapshot) for name in reserve.most_resources)
    capacity = snapshot.capacity
    if reserve.widest_batch_job >= capacity:
        lost = "nothing is ever kept free"
        yield WARN, f"widest_batch_job is all of the {capacity} processors: {lost}"
    elif reserve.most >= capacity:
        yield WARN, f"most_processors is all of the {capacity} processors: batch work might stop"
    else:
        bounds = (("account", reserve.account_most), ("user", reserve.user_most))
        parts = [f"{most:g} for one {who}" for who, most in bounds if math.isfinite(most)]
        more = f"; {', '.join(parts)}, further jobs are ordered as batch" if parts else ""
        yield PASS, f"{reserve.most} of {capacity} processors at most{more}"


def _resource(name: str, reserve: ReserveSettings, snapshot: QueueSnapshot) -> Finding:
    now = snapshot.resources
    has = 0 if now is None else int(now.of(name, now.capacity))
    most, widest = reserve.most_resources[name], reserve.widest_batch_resources.get(name, 1)
    if not has:
        return WARN, f"the batch system shows no {name}, so none can be kept free"
    said = f"{amount_words(name, most)} of {amount_words(name, has)}"
    if widest >= has:
        return WARN, f"{said}: widest_batch_resources is all there is, so nothing is ever kept free"
    if most >= has:
        return WARN, f"{said}: batch work that asks for it might stop"
    return PASS, f"{said} at most"


def _model(
    configuration: Configuration, look: QueueLook | None = None, jobs: int | None = None
) -> Iterator[Check]:
    try:
        loaded = load_policy(configuration.sections.policy.model)
    except PolicyError as error:
        yield Check(FAIL, "model", str(error))
        return
    yield Check(PASS, "model", f"{loaded.policy.name} {loaded.sha256[:12]}".strip())
    yield from _named({"reward": reward_of(configuration, loaded)})
    if look is not None:
        many = jobs or max(len(look.considered.plan.snapshot.pending), FEWEST_JOBS)
        yield from _named({"decision time": _decision_time(configuration, loaded, look, many)})


def reward_of(configuration: Configuration, loaded: LoadedPolicy) -> Finding:
    """[reward] acts by training alone: a model must have been trained for what it says."""
    if loaded.card is None:
        return PASS, "a rule has no reward: [reward] is not used"
    trained = loaded.card.reward_weights
    if not trained:
        return WARN, "the model does not say what it was trained for: [reward] is not used"
    differs = configuration.other_rewards(trained)
    trained_classes = loaded.card.metadata.get("utility_classes", "{}")
    if not differs and trained_classes != json.dumps(configuration.classifier.own, sort_keys=True):
        return WARN, (
            "the model was trained for other classes of service than [utility] has: train one "
            "with --config"
        )
    if not differs:
        return PASS, "the model was trained for the weights of [reward]"
    weights = ", ".join(f"{key} = {weight:g}" for key, weight in differs.items())
    mend = "train one for your [reward], or set it as trained"
    return FAIL, f"the model was trained with {weights}: {mend}"


def _decision_time(
    configuration: Configuration, loaded: LoadedPolicy, look: QueueLook, jobs: int
) -> Finding:
    plan = look.considered.plan
    snapshot = queue_beside(plan.snapshot, jobs, np.random.default_rng(1))
    deadline = float(configuration.sections.policy.inference_deadline)
    taken = []
    for _ in range(_REPEATS):
        began = time.monotonic()
        try:
            loaded.policy.decide(snapshot, plan.memory)
        except PolicyError as error:
            return FAIL, str(error)
        taken.append(time.monotonic() - began)
    seconds = float(np.median(taken))
    what = f"{seconds:.3f} s for {jobs} jobs, allowed {deadline:g} s"
    if seconds >= deadline:
        return FAIL, f"{what}: raise inference_deadline or take a smaller model"
    if seconds >= deadline / 2:
        return WARN, f"{what}: raise inference_deadline"
    return PASS, what


def _files(configuration: Configuration, now: float) -> Iterator[Check]:
    hook = configuration.sections.hook
    for name, path in (("state_file", hook.state_file), ("audit_file", hook.audit_file)):
        if not path:
            continue
        folder = Path(path).parent
        if os.access(folder, os.W_OK | os.X_OK):
            yield Check(PASS, name, f"{folder} is writable for this user")
        else:
            yield Check(FAIL, name, f"{folder} is missing or not writable for this user")
    disable, disabled = configuration.disable_file, (PASS, "nothing is disabled")
    found = None if disable is None else read_disable_file(disable)
    if found is not None and found.counts(now):
        disabled = (WARN, f"disabled {found.words}: `slurm-rl enable` ends it")
    elif disable is not None and not disable.parent.is_dir():
        mend = "make it, or the daemon cannot be disabled"
        disabled = (WARN, f"{disable.parent} is missing: {mend}")
    yield from _named({"disable_file": disabled})


def outstanding_of(configuration: Configuration) -> Finding:
    """Whether a factor or a limit is outstanding in the batch system while no daemon runs."""
    state = Path(configuration.sections.hook.state_file)
    left = "; ".join(each.words for each in outstanding_at(state) if each.is_outstanding())
    runs = daemon_runs(state)
    if left and configuration.sections.hook.beside_controllers:
        what = f"{left}: the daemon next to the controller in charge restores it"
        return WARN if runs is not True else PASS, what
    if left and runs is None:
        return WARN, f"{left}; this user may not see whether a daemon runs"
    if left and runs is False:
        what = f"{left}, and no daemon is running to restore it"
        return FAIL, f"{what}: start it, or run `slurm-rl release`"
    return PASS, "no factor or limit is in the batch system without a daemon"


def _metrics(configuration: Configuration) -> Iterator[Check]:
    yield from _named({"metrics port": _port_of(configuration)})
    textfile, tls = configuration.sections.metrics.textfile, configuration.tls_of("metrics")
    if textfile:
        yield _usable("metrics textfile", lambda: check_textfile(Path(textfile)))
    if tls is not None:
        yield _usable("metrics tls", lambda: ServedTls(tls))


def _usable(name: str, use: Callable[[], object], fine: str = "can be used") -> Check:
    try:
        use()
    except ConfigurationError as error:
        return Check(FAIL, name, str(error))
    return Check(PASS, name, fine)


def _port_of(configuration: Configuration) -> Finding:
    where = configuration.sections.metrics
    address, port = where.address, where.port
    if port == 0:
        return WARN, "0 is any free one, which Prometheus cannot know: set [metrics] port"
    fault = why_not_listen(address, port)
    if fault is None:
        return PASS, f"{port} is free"
    if isinstance(daemon_state(configuration), LiveState):
        return PASS, f"{port}: the daemon answers there"
    return FAIL, f"{address}:{port}: {fault}; set [metrics] port to another"


def why_not_listen(address: str, port: int) -> str | None:
    """Why a service could not listen there now; None if it could."""
    try:
        family, kind, protocol, _, target = socket.getaddrinfo(
            address or None, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
        with socket.socket(family, kind, protocol) as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)  # as the daemon does
            probe.bind(target)
    except OSError as error:
        return str(error.strerror)
    return None


def offer_checks(configuration: Configuration, now: float) -> Iterator[Check]:
    """Token, certificate, port, and whether this user may ask for the start of a job."""
    given = configuration.sections.offer
    # the file of the package spells every default out
    if given == OfferSection() and not Path(given.token_file).exists():
        return
    try:
        site = offering_site(configuration)
    except ConfigurationError as error:
        yield Check(FAIL, "offer", str(error))
        return
    yield from _named({"offer token": _token(Path(given.token_file))})
    tls = configuration.tls_of("offer")
    if tls is None:
        yield Check(PASS, "offer tls", "none, on the loopback address only")
    else:
        fine = f"{tls.certificate} and its key can be used"
        yield _usable("offer tls", lambda: ServedTls(tls), fine)
    fault = why_not_listen(given.address, given.port) if given.port else None
    if fault is None:
        yield Check(PASS, "offer port", f"{given.port} is free")
    else:
        where = f"{given.address}:{given.port}"
        yield Check(WARN, "offer port", f"{where}: {fault}; right if the service runs")
    if given.forward_hops:
        places = configuration.sections.route.sites_file
        fine = f"to the sites of {places}, {given.forward_hops} hops"
        yield _usable("offer forwarding", lambda: build_forwarder(configuration, site), fine)
    if given.utility_model:
        fine = f"{given.utility_model} gives what the site publishes"
        yield _usable("offer utilities", lambda: utility_model(configuration), fine)
    yield from _named({"offer test": _will_run(configuration, site, now)})


def _token(path: Path) -> Finding:
    try:
        read_token(path)
        mode = path.stat().st_mode
    except (ConfigurationError, OSError) as error:
        return FAIL, str(error)
    if mode & stat.S_IROTH:
        return WARN, f"everybody may read {path}: chmod o-r, or mean it"
    return PASS, f"{path} holds one"


def _will_run(configuration: Configuration, site: OfferingSite, now: float) -> Finding:
    """Query as the service does: account and QOS are those of this user."""
    try:
        start = site.expected_start(job_request(_SMALL))
    except JobNotAccepted as error:
        return FAIL, f"{error}; run it as the service's user, with its account in [offer] account"
    except BatchSystemError as error:
        return FAIL, str(error)
    if start is None:
        title = chosen_batch_system(configuration).kind.title
        return WARN, f"{title} gives no time for a job of one processor"
    wait = max(start - now, 0.0)
    return PASS, f"a job of one processor would start in {wait:.0f} s"
