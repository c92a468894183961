"""`slurm-rl explain`: why one pending job is where it is."""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Mapping
from typing import Any

from slurm_rl_plugin.cli.argument_types import job_number
from slurm_rl_plugin.cli.site_options import add_configuration_options, configuration_of
from slurm_rl_plugin.cli.tables import (
    print_json,
    print_table,
    slurm_duration,
    slurm_size,
    slurm_time,
)
from slurm_rl_plugin.domain.resources import CPUS, GPUS, LICENCE_PREFIX, MEMORY
from slurm_rl_plugin.hook.rails.reserve import ACCOUNT, NO_RESERVE, OFF
from slurm_rl_plugin.readable import printable
from slurm_rl_plugin.services.configured_site import chosen_batch_system
from slurm_rl_plugin.services.explained_job import explained
from slurm_rl_plugin.services.explanation import (
    Account,
    ActedRail,
    AsBatch,
    ClassUtility,
    Explanation,
    LicenceRoom,
    ResourceRoom,
    Room,
    RunTime,
)

#: Features shown; --json has them all.
FEATURES = 6
#: What the operator reads for each reason of `UntouchedJobs`.
UNTOUCHED = {
    "held": "it is held",
    "admin_set": "its priority was set by hand",
    "not_eligible": "it is not eligible yet (dependency, begin time or array limit)",
    "shared": "other clusters of the federation hold it too",
    "exempt_account": "its account is exempt ([guard_rails] exempt_accounts)",
    "exempt_partition": "its partition is exempt ([guard_rails] exempt_partitions)",
    "exempt_qos": "its QOS is exempt ([guard_rails] exempt_qos)",
}

#: Whether tasks of it have started -> why not all of a wait counts.
_WHY_NOT_ALL = {
    False: "the batch system accrues no more",
    True: "an array has waited since a task of it last started",
}
#: How one and several of a resource are called.
_WORDS = {CPUS: ("processor", "processors"), GPUS: ("GPU", "GPUs")}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The job that is explained, and the configuration."""
    parser.add_argument("job", type=job_number, metavar="JOBID", help="a job, an array or a task")
    add_configuration_options(parser)
    parser.add_argument("--json", action="store_true", help="print one JSON document")


def main(options: argparse.Namespace) -> int:
    """Decide on the whole queue and say all about one job."""
    configuration = configuration_of(options)
    timeout = float(configuration.sections.batch_system.timeout)
    record = chosen_batch_system(configuration).kind.job_record(options.job, timeout)
    found = explained(configuration, options.job, record)
    if options.json:
        print_json(found.document())
    else:
        print_explanation(found)
    return 0


def print_explanation(found: Explanation) -> None:
    """Print the document of `slurm-rl explain`."""
    for line in (
        *_job(found),
        *_room(found),
        *_place(found),
        *_start(found.start),
        *_run_time(found.run_time),
        _account(found.account),
        *_points(found),
        *_limit(found),
        *_priority(found),
        *_experiment(found.experiment),
    ):
        print(printable(line))
    _print_features(found)
    _print_neighbours(found)
    _print_audit(found.audit)
    for sentence in found.not_read:
        print(printable(f"Not read: {sentence}"))


def _job(found: Explanation) -> list[str]:
    array = f", tasks {found.tasks}" if found.tasks else ""
    return [
        f"Job {found.job}{array} of {found.user}: account "
        f"{found.account.name}, partition {found.partition}, "
        f"{found.processors} processors, limit {slurm_duration(found.time_limit)}, "
        f"waiting {slurm_duration(found.wait)}.",
        *_reason(found),
        *_accrued(found),
        f"Class: {found.class_}, by the rule: {found.class_rule or 'not read'}.",
        *_as_batch(found.as_batch),
        *_utility(found.utility),
    ]


def _utility(found: ClassUtility | None) -> list[str]:
    """Say what its wait costs; no line at a site without classes of its own."""
    if found is None:
        return []
    by_user = ", as its user asks" if found.by_user else ""
    due = f", due {slurm_time(found.deadline)}" if found.deadline else ""
    lines = [
        f"Utility: class {found.class_}{by_user}{due}: {found.now:.3f} if it starts now; a "
        f"further hour of waiting costs {found.further_hour:.3f}."
    ]
    ignored = found.ignored
    return [*lines, f"The wish of its user is ignored: {ignored}."] if ignored else lines


def _as_batch(found: AsBatch | None) -> list[str]:
    """Say why a job of the interactive class counts as batch; no line where it does not."""
    if found is None:
        return []
    if found.until is not None:
        return [
            f"It counts as batch until {slurm_time(found.until)}: {found.timed_out} of its "
            f"user's {found.runs} interactive jobs were ended by their time limit."
        ]
    if found.reason == NO_RESERVE:
        return ["It counts as batch: its user chose the class, and no [reserve] bounds such jobs."]
    who = "account" if found.reason == ACCOUNT else "user"
    return [
        f"It counts as batch: with it, interactive jobs of its {who} would hold more than "
        f"{found.most} processors of the reserve ([reserve] {found.reason})."
    ]


def _reason(found: Explanation) -> list[str]:
    """What the batch system's reason means, and what our order adds; no line without a reason."""
    if not found.reason:
        return []
    ranks = found.ranks
    place = f"place {ranks.decided} of {ranks.of}"
    if ranks.decided is None:
        ours = "Our order gives the job no place until then"
    elif found.score is None:  # untouched, or all factors are restored
        ours = f"The order is the site's: {place}"
    elif found.for_processors:
        ours = f"Our order puts the job at {place}"
    else:
        ours = f"Our order cannot change that; it keeps {place} for the job"
    return [f"Reason {found.reason}: {found.meaning}. {ours}."]


def _experiment(sentence: str | None) -> list[str]:
    return [] if sentence is None else [sentence[0].upper() + sentence[1:]]


def _room(found: Explanation) -> list[str]:
    """What it asks of nodes, and whether they have it; no line on a machine of processors."""
    asked = found.requests
    if asked is None:
        return []
    told = ", ".join(amount_text(name, amount) for name, amount in asked.amounts.items())
    count = max(asked.nodes, 1)
    where = "one node" if count == 1 else f"{count} nodes"
    whole = ", for itself" if asked.exclusive else ""
    with_features = f" with {asked.constraint}" if asked.constraint else ""
    lines = [f"It asks for {told}, on {where} at least{with_features}{whole}."]
    return lines if found.room is None else lines + room_sentences(found.room)


def _start(told: Mapping[str, Any] | None) -> list[str]:
    """When the forecast service says that it starts; no line where none runs."""
    if told is None:
        return []
    if told["forecast"] is None:
        return [f"Start: {told['why_not']}"]
    low, high = (slurm_time(each) for each in told["forecast"]["bands"]["90 %"])
    start = slurm_time(told["forecast"]["start"])
    return [f"Start: {start} (median), 90 % between {low} and {high}; see `slurm-rl start`."]


def _accrued(found: Explanation) -> list[str]:
    """Say how much of the job's wait counts; no line where all of it does."""
    lines = []
    if found.accrued < found.wait:
        counts = slurm_duration(found.accrued)
        lines.append(f"Of its wait {counts} count: {_WHY_NOT_ALL[found.started_tasks]}.")
    if found.runs > 1.0:
        lines.append(f"Its waiting tasks fill the machine {found.runs:.3g} times.")
    if found.wait_counts != 1.0:
        times = f"{found.wait_counts:.2g} times"
        lines.append(f"Its wait counts {times}: jobs of its group wait for too long ([guard]).")
    if found.passed_over:
        lines.append("The starvation bound passes over it: it waits by its own doing.")
    return lines


def _place(found: Explanation) -> list[str]:
    ranks = found.ranks
    lines = []
    if found.fallback:
        lines.append(f"The policy is not used: {found.fallback}")
    if found.untouched:
        lines.append(f"Never touched by us: {UNTOUCHED[found.untouched]}.")
    if ranks.decided is None:
        return [*lines, "It has no rank: it cannot start now."]
    lines.append(
        f"Rank: {ranks.decided} of {ranks.of} in the decided order; {ranks.site} by the "
        f"site's own priority; {ranks.now} by the priorities of now; "
        f"{ranks.in_account} of {ranks.of_account} in its account."
    )
    if found.score is not None and not found.fallback:
        model = f", model {found.model[:12]}" if found.model else ""
        lines.append(f"Score: {found.score:.6g} (policy {found.policy}{model}).")
    if not found.fallback:
        lines += _guard_rails(found.guard_rails)
    return [*lines, *_own_order(found.own_order)]


def _guard_rails(rails: list[ActedRail]) -> list[str]:
    if not rails:
        return ["Guard rails: none changed the order."]
    return [
        f"Guard rail {rail.rail}: place {rail.place_before or '-'} of the ordered jobs "
        f"became {rail.place_after or '-'}."
        for rail in rails
    ]


def _own_order(later: int) -> list[str]:
    """Say what its user's nice did; no line where it did nothing."""
    if not later:
        return []
    places = f"{abs(later)} place{'s' * (abs(later) > 1)} {'later' if later > 0 else 'earlier'}"
    return [f"Your own order (nice) put it {places} among your jobs."]


def _run_time(run_time: RunTime) -> list[str]:
    if run_time.estimate is None:
        return []
    line = f"Run time: estimate {slurm_duration(run_time.estimate)} ({run_time.kind})"
    predicted = run_time.predicted
    if predicted is None:
        return [f"{line}; the policy predicts none."]
    spread = ""
    if predicted.quantiles:
        low, high = (slurm_duration(predicted.quantiles[part]) for part in ("0.1", "0.9"))
        spread = f", of ten such runs eight last from {low} to {high}"
    counts = predicted.counts_as
    order = "" if counts is None else f"; in the order it counts as {slurm_duration(counts)}"
    if predicted.median is None:
        return [f"{line}{order}."]
    return [f"{line}; predicted {slurm_duration(predicted.median)} (median){spread}{order}."]


def _account(account: Account) -> str:
    line = f"Account {account.name}: share {account.share:.3f}, usage {account.usage:.3f}"
    if account.lift:
        line += f"; lifted by {account.lift:.2g} doublings"
        if account.ratio is not None:
            line += f": it got {100 * account.ratio:.0f} % of its entitlement in 14 days"
    unweighed = account.weighs_share is False
    return f"{line}; share and usage have no weight in this model." if unweighed else f"{line}."


def _points(found: Explanation) -> list[str]:
    """What counts in a linear score, and by how many points; no line for another policy."""
    points = {each.name: each.points for each in found.features or [] if each.points is not None}
    predicted = found.run_time.predicted
    run = None if predicted is None else predicted.counts_as
    words = {
        "log_age": f"waited {slurm_duration(found.accrued)}",
        "overdue": "waits long for this site",
        "log_run_time": "its run" if run is None else f"counts as a run of {slurm_duration(run)}",
        "log_size": f"{found.processors} processors",
        "share_points": "its account's usage over its share",
        "interactive_points": "interactive",
        "log_alike_none_running": "jobs with this request wait and none runs",
    }
    if not set(words) <= set(points):
        return []
    parts = [f"{text}: {points[name]:+.1f}" for name, text in words.items() if points[name]]
    return [f"Points: {'; '.join(parts)}."] if parts else []


def _limit(found: Explanation) -> list[str]:
    """Say how the limit on batch jobs touches the job; no line where [reserve] is off."""
    limit = found.batch_limit
    if limit.reason == OFF:
        return []
    of_it = " It is one of them." if found.class_ == "batch" else " It is none of them."
    if found.as_batch is not None:  # the batch system may not count it
        of_it = " It is ordered as one of them."
    words = limit.words
    return [f"Reserve: {words}{of_it if limit.processors is not None else ''}"]


def _priority(found: Explanation) -> list[str]:
    priority, write = found.priority, found.write
    lines = [
        f"Priority now: {priority.total} = {priority.native} of the site + factor "
        f"{priority.factor}."
    ]
    for partition, terms in found.terms.items():
        told = ", ".join(f"{name} {points}" for name, points in terms.items())
        lines.append(f"  in partition {partition}: {told}")
    if found.writes.disabled:
        lines.append(f"Nothing is written now: disabled {found.writes.disabled}.")
    elif found.writes.mode == "shadow":
        lines.append("Nothing is written now: the mode is shadow.")
    if write is None:
        return [*lines, "A cycle in active mode would write nothing to it."]
    late = "" if write.this_cycle else ", in a later cycle (max_writes)"
    return [
        *lines,
        f"A cycle in active mode would write factor {write.new} instead of {write.old}{late}.",
    ]


def _print_features(found: Explanation) -> None:
    if found.features is None:
        return
    print()
    shown = found.features[:FEATURES]
    rows = [[each.name, each.value, each.median, each.effect, each.linear] for each in shown]
    print_table(["FEATURE", "VALUE", "MEDIAN", "EFFECT", "LINEAR"], rows)
    print("EFFECT: the score less what it would be with the median of the queue. LINEAR: weight *")
    print("(value - mean) / scale, the part of the network without hidden units.")


def _print_neighbours(found: Explanation) -> None:
    if not found.neighbours:
        return
    print()
    names = ("rank", "site_rank", "job", "user", "account", "partition", "class_")
    rows = []
    for each in found.neighbours:
        mark = "*" if each.job == found.job else ""
        last = [slurm_duration(each.wait), each.untouched or each.score]
        rows.append([mark, *(getattr(each, name) for name in names), *last])
    header = [name.replace("_", "").upper() for name in names]
    print_table(["", *header, "WAIT", "SCORE"], rows)


def _print_audit(lines: list[dict[str, Any]]) -> None:
    if not lines:
        return
    print()
    names = ("event", "policy", "old", "new", "reason")
    rows = [[slurm_time(line["time"]), *(line.get(name) for name in names)] for line in lines]
    print_table(["AUDIT", *(name.upper() for name in names)], rows)


def amount_text(resource: str, amount: float) -> str:
    """An amount in words: `4 GPUs`, `16G of memory`, `2 gres/gpu:a100`."""
    if resource == MEMORY:
        return f"{slurm_size(amount)} of memory"
    one, several = _WORDS.get(resource, (resource, resource))
    return f"{amount:g} {one if amount == 1 else several}"


def room_sentences(room: Room) -> list[str]:
    """The same for people: what it waits for, of each resource of which too little is free."""
    count, licences = room.nodes, [*_licences(room.licences)]
    if room.constraint and room.nodes_that_may < count:
        return [*licences, _without(room)]
    if room.exclusive and room.idle_nodes < count:
        return [*licences, _not_idle(room)]
    scarce = [
        _scarce(name, found, count, room.constraint)
        for name, found in room.resources.items()
        if found.nodes_with_room < count
    ]
    if scarce or licences:
        return [*licences, *scarce]
    if room.nodes_with_room < count:
        return ["Each of these is free on enough nodes, but not together on enough of them."]
    return [
        f"{room.nodes_with_room} of its nodes have room for it now: it waits for its turn, or "
        "for what the reason says."
    ]


def _licences(found: Mapping[str, LicenceRoom]) -> Iterator[str]:
    for name, amounts in found.items():
        asked, free = amounts.asked, amounts.free
        if free < asked:
            what = "licence" if asked == 1 else "licences"
            verb = "is" if free == 1 else "are"
            named = name.removeprefix(LICENCE_PREFIX)
            yield f"It waits for {asked:g} {what} of {named}; {free:g} {verb} free."


def _with_features(constraint: str | None) -> str:
    return f" with {constraint}" if constraint else ""


def _without(room: Room) -> str:
    """Too few nodes of its partitions have the features at all."""
    count, some = room.nodes, room.nodes_that_may
    what = "a node" if count == 1 else f"{count} nodes"
    there = f"{some or 'none'} of its partitions {'are' if some > 1 else 'is'} such"
    return f"It waits for {what}{_with_features(room.constraint)}; {there}."


def _not_idle(room: Room) -> str:
    count, idle = room.nodes, room.idle_nodes
    what = "a whole node" if count == 1 else f"{count} whole nodes"
    verb = "is" if idle == 1 else "are"
    of = f"of {room.nodes_that_may} {idle} {verb} idle"
    return f"It waits for {what}{_with_features(room.constraint)}; {of}."


def _scarce(name: str, found: ResourceRoom, count: int, constraint: str | None) -> str:
    each, best = found.on_each_node, found.most_free
    spread = f" on each of {count} nodes" if count > 1 else " on a node" if constraint else ""
    spread += _with_features(constraint)
    wanted = f"It waits for {amount_text(name, each)}{spread}"
    if not best:
        return f"{wanted}; none is free on any node."
    free = slurm_size(best) if name == MEMORY else f"{best:g}"
    if not found.nodes_with_room:
        verb = "is" if best == 1 or name == MEMORY else "are"
        most = slurm_size(each) if name == MEMORY else f"{each:g}"
        whole = slurm_size(found.free) if name == MEMORY else f"{found.free:g}"
        return f"{wanted}; {free} {verb} free on one node, none has {most} ({whole} on all nodes)."
    verb = "has" if found.nodes_with_room == 1 else "have"
    return f"{wanted}; {found.nodes_with_room} {verb} as many free."
