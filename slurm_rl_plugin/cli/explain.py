"""`slurm-rl explain`: why one pending job is where it is."""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Mapping
from typing import Any

from slurm_rl_plugin.cli.argument_types import job_number
from slurm_rl_plugin.cli.site_options import add_configuration_options, configuration_of
from slurm_rl_plugin.cli.tables import answer, print_table, slurm_duration, slurm_size, slurm_time
from slurm_rl_plugin.domain.resources import CPUS, GPUS, LICENCE_PREFIX, MEMORY
from slurm_rl_plugin.hook.rails.reserve import ACCOUNT, NO_RESERVE, OFF
from slurm_rl_plugin.readable import printable
from slurm_rl_plugin.services.configured_site import chosen_batch_system
from slurm_rl_plugin.services.explanation import Account, AsBatch, Explanation, RunTime, explained
from slurm_rl_plugin.services.job_room import LicenceRoom, ResourceRoom, Room

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

#: Whether tasks of an array have started -> why only a part of its wait counts.
_WHY_NOT_ALL = {
    False: "the batch system accrues no more",
    True: "an array has waited since a task of it last started",
}
#: Names of one and of several units of a resource.
_WORDS = {CPUS: ("processor", "processors"), GPUS: ("GPU", "GPUs")}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The job to explain, and the configuration."""
    parser.add_argument("job", type=job_number, metavar="JOBID", help="a job, an array or a task")
    add_configuration_options(parser)
    parser.add_argument("--json", action="store_true", help="print one JSON document")


def main(options: argparse.Namespace) -> int:
    """Decide on the whole queue and explain one job of it."""
    configuration = configuration_of(options)
    timeout = float(configuration.sections.batch_system.timeout)
    record = chosen_batch_system(configuration).kind.job_record(options.job, timeout)
    found = explained(configuration, options.job, record)
    return answer(options, found.document(), lambda: print_explanation(found))


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
        *([] if found.experiment is None else [_sentence(found.experiment)]),
    ):
        print(printable(line))
    _print_tables(found)
    for sentence in found.not_read:
        print(printable(f"Not read: {sentence}"))


def _job(found: Explanation) -> Iterator[str]:
    array = f", tasks {found.tasks}" if found.tasks else ""
    yield (
        f"Job {found.job}{array} of {found.user}: account "
        f"{found.account.name}, partition {found.partition}, "
        f"{found.processors} processors, limit {slurm_duration(found.time_limit)}, "
        f"waiting {slurm_duration(found.wait)}."
    )
    if found.reason:
        yield f"Reason {found.reason}: {found.meaning}. {_our_place(found)}."
    yield from _accrued(found)
    yield f"Class: {found.class_}, by the rule: {found.class_rule or 'not read'}."
    yield from _as_batch(found.as_batch)
    if (cost := found.utility) is not None:
        by_user = ", as its user asks" if cost.by_user else ""
        due = f", due {slurm_time(cost.deadline)}" if cost.deadline else ""
        yield (
            f"Utility: class {cost.class_}{by_user}{due}: {cost.now:.3f} if it starts now; a "
            f"further hour of waiting costs {cost.further_hour:.3f}."
        )
        if cost.ignored:
            yield f"The wish of its user is ignored: {cost.ignored}."


def _as_batch(found: AsBatch | None) -> Iterator[str]:
    if found is None:
        return
    if found.until is not None:
        yield (
            f"It counts as batch until {slurm_time(found.until)}: {found.timed_out} of its "
            f"user's {found.runs} interactive jobs were ended by their time limit."
        )
    elif found.reason == NO_RESERVE:
        yield "It counts as batch: its user chose the class, and no [reserve] bounds such jobs."
    else:
        who = "account" if found.reason == ACCOUNT else "user"
        yield (
            f"It counts as batch: with it, interactive jobs of its {who} would hold more than "
            f"{found.most} processors of the reserve ([reserve] {found.reason})."
        )


def _our_place(found: Explanation) -> str:
    ranks = found.ranks
    place = f"place {ranks.decided} of {ranks.of}"
    if ranks.decided is None:
        return "Our order gives the job no place until then"
    if found.score is None:  # untouched, or all factors are restored
        return f"The order is the site's: {place}"
    if found.for_processors:
        return f"Our order puts the job at {place}"
    return f"Our order cannot change that; it keeps {place} for the job"


def _sentence(clause: str) -> str:
    return clause[0].upper() + clause[1:]


def _room(found: Explanation) -> list[str]:
    asked = found.requests
    if asked is None:
        return []
    amounts = ", ".join(amount_text(name, each) for name, each in asked.amounts.items())
    where = "one node" if asked.nodes <= 1 else f"{asked.nodes} nodes"
    whole = ", for itself" if asked.exclusive else ""
    with_features = _with_features(asked.constraint)
    line = f"It asks for {amounts}, on {where} at least{with_features}{whole}."
    return [line, *([] if found.room is None else room_sentences(found.room))]


def _start(found: Mapping[str, Any] | None) -> list[str]:
    if found is None:
        return []
    if found["forecast"] is None:
        return [f"Start: {found['why_not']}"]
    low, high = (slurm_time(each) for each in found["forecast"]["bands"]["90 %"])
    start = slurm_time(found["forecast"]["start"])
    is_calibrated = found.get("calibrated", True)
    more = "see `slurm-rl start`" if is_calibrated else "not yet calibrated on this cluster"
    return [f"Start: {start} (median), 90 % between {low} and {high}; {more}."]


def _accrued(found: Explanation) -> Iterator[str]:
    if found.accrued < found.wait:
        counts = slurm_duration(found.accrued)
        yield f"Of its wait {counts} count: {_WHY_NOT_ALL[found.started_tasks]}."
    if found.runs > 1.0:
        yield f"Its waiting tasks fill the machine {found.runs:.3g} times."
    if found.wait_counts != 1.0:
        times = f"{found.wait_counts:.2g} times"
        yield f"Its wait counts {times}: jobs of its group wait for too long ([guard])."
    if found.passed_over:
        yield "The starvation bound does not count for it: it waits for a reason of its own."


def _place(found: Explanation) -> Iterator[str]:
    ranks = found.ranks
    if found.fallback:
        yield f"The policy is not used: {found.fallback}"
    if found.untouched:
        yield f"The daemon never changes its priority: {UNTOUCHED[found.untouched]}."
    if ranks.decided is None:
        yield "It has no rank because it cannot start now."
        return
    yield (
        f"Rank: {ranks.decided} of {ranks.of} in the decided order; {ranks.site} by the "
        f"site's own priority; {ranks.now} by the present priorities; "
        f"{ranks.in_account} of {ranks.of_account} in its account."
    )
    if not found.fallback:
        if found.score is not None:
            model = f", model {found.model[:12]}" if found.model else ""
            yield f"Score: {found.score:.6g} (policy {found.policy}{model})."
        for rail in found.guard_rails:
            yield (
                f"Guard rail {rail.rail}: place {rail.place_before or '-'} of the ordered jobs "
                f"became {rail.place_after or '-'}."
            )
        if not found.guard_rails:
            yield "Guard rails: none changed the order."
    if later := found.own_order:
        places = f"{abs(later)} place{'s' * (abs(later) > 1)} {'later' if later > 0 else 'earlier'}"
        yield f"Your own order (nice) put it {places} among your jobs."


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


def _limit(found: Explanation) -> Iterator[str]:
    of_it = " This job is one of them." if found.class_ == "batch" else " This job is not one."
    if found.as_batch is not None:  # the batch system may not count it
        of_it = " This job is ordered as one of them."
    limit = found.batch_limit
    if limit.reason != OFF:
        yield f"Reserve: {limit.words}{'' if limit.processors is None else of_it}"


def _priority(found: Explanation) -> Iterator[str]:
    priority, write = found.priority, found.write
    yield (
        f"Priority now: {priority.total} = {priority.native} of the site + factor "
        f"{priority.factor}."
    )
    for partition, terms in found.terms.items():
        points = ", ".join(f"{name} {each}" for name, each in terms.items())
        yield f"  in partition {partition}: {points}"
    if found.writes.disabled:
        yield f"Nothing is written now: disabled {found.writes.disabled}."
    elif found.writes.mode == "shadow":
        yield "Nothing is written now: the mode is shadow."
    if write is None:
        yield "A cycle in active mode would write nothing to it."
        return
    late = "" if write.this_cycle else ", in a later cycle (max_writes)"
    yield f"A cycle in active mode would write factor {write.new} instead of {write.old}{late}."


def _print_tables(found: Explanation) -> None:
    if found.features is not None:
        rows = [
            [each.name, each.value, each.median, each.effect, each.linear]
            for each in found.features[:FEATURES]
        ]
        print()
        print_table(["FEATURE", "VALUE", "MEDIAN", "EFFECT", "LINEAR"], rows)
        print(
            "EFFECT: the score less what it would be with the median of the queue. LINEAR: weight *"
        )
        print("(value - mean) / scale, the part of the network without hidden units.")
    if found.neighbours:
        names = ("rank", "site_rank", "job", "user", "account", "partition", "class_")
        rows = [
            [
                "*" if each.job == found.job else "",
                *(getattr(each, name) for name in names),
                *(slurm_duration(each.wait), each.untouched or each.score),
            ]
            for each in found.neighbours
        ]
        print()
        header = [name.replace("_", "").upper() for name in names]
        print_table(["", *header, "WAIT", "SCORE"], rows)
    if found.audit:
        columns = ("event", "policy", "old", "new", "reason")
        print()
        print_table(
            ["AUDIT", *(name.upper() for name in columns)],
            [[slurm_time(each["time"]), *map(each.get, columns)] for each in found.audit],
        )


def amount_text(resource: str, amount: float) -> str:
    """An amount in words: `4 GPUs`, `16G of memory`, `2 gres/gpu:a100`."""
    if resource == MEMORY:
        return f"{slurm_size(amount)} of memory"
    one, several = _WORDS.get(resource, (resource, resource))
    return f"{amount:g} {one if amount == 1 else several}"


def room_sentences(room: Room) -> list[str]:
    """What the job waits for, a sentence for each resource that is scarce."""
    count, some, idle = room.nodes, room.nodes_that_may, room.idle_nodes
    licences = [*_licences(room.licences)]
    if room.constraint and some < count:  # too few nodes of its partitions have the features at all
        what = "a node" if count == 1 else f"{count} nodes"
        there = f"{some or 'none'} of its partitions {'are' if some > 1 else 'is'} such"
        return [*licences, f"It waits for {what}{_with_features(room.constraint)}; {there}."]
    if room.exclusive and idle < count:
        what = "a whole node" if count == 1 else f"{count} whole nodes"
        of = f"of {some} {idle} {'is' if idle == 1 else 'are'} idle"
        return [*licences, f"It waits for {what}{_with_features(room.constraint)}; {of}."]
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
