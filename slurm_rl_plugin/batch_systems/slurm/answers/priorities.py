"""What `sprio` says: the priority of each eligible job and the terms that it is made of."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from functools import lru_cache
from typing import NamedTuple

from slurm_rl_plugin.batch_systems.slurm.answers.fields import (
    SEPARATOR,
    bounded,
    parse_integer,
)
from slurm_rl_plugin.batch_systems.slurm.process import not_understood

#: Format letters of `sprio -o`: job, partition, total, site, nice, then the weighted factors
#: age, association, fair share, job size, partition and QOS; TRES is a list and comes last.
PRIORITY_FORMAT = "%i|%r|%Y|%S|%N|%A|%B|%F|%J|%P|%Q|%T"
#: The numbers of a line, between job and partition and the TRES.
TERMS = ("total", "site", "nice", "age", "association", "fairshare", "job_size", "partition", "qos")
#: How one begins that is not 0.
_NOT_ZERO = frozenset("123456789")
#: Places of those that QOS, partition and association add.
_STANDING = tuple(TERMS.index(name) for name in ("association", "partition", "qos"))
#: Fields behind the first three of them: weighted factors, and the TRES.
_FIELDS = len(TERMS) - 2
#: Slurm's NO_VAL, printed by 22.05 for the terms of a job with several partitions and a priority
#: by hand; 24.11 prints 0.
NO_TERM = -2147483648
#: Points by which the printed, rounded factors and the total may differ: half a point for each
#: of the seven factors.
ROUNDING = 4
LEAST_PRIORITY = 1


class PriorityTerms(NamedTuple):
    """The parts of one job's priority, in points.

    Attributes:
        native: priority without our term.
        site: our term, SiteFactor; 0 where the priority was set by hand and hides it.
        by_hand: an administrator fixed the priority (`Priority=`, `sbatch --priority`). Slurm
            then reports a total with every factor 0, or, in 22.05 for a job with several
            partitions, factors that are no numbers.
        spread: points by which components of a heterogeneous job stand apart, those of the job
            being the component's that speaks for it; 0 for other jobs.
        nice: the user's, as it counts in `native`; Slurm counts a new one at its next calculation.
        standing: what association, partition and QOS add.
    """

    native: int
    site: int
    by_hand: bool
    spread: int = 0
    nice: int = 0
    standing: int = 0

    def with_nice(self, nice: int) -> PriorityTerms:
        """The terms once Slurm counts the nice that the job has now."""
        if self.by_hand or nice == self.nice:
            return self
        return self._replace(native=self.native + self.nice - nice, nice=nice)


#: Record number, partition, priority in all, and its terms.
ListedJob = tuple[int, str, int, PriorityTerms]
#: PriorityTier where slurm.conf names none; also taken for partitions without nodes.
LOWEST_TIER = 1


def parse_lines(text: str, known: Mapping[str, ListedJob]) -> dict[str, ListedJob]:
    """What each line says, without reading again those that an earlier answer held.

    A job with several partitions has a line for each; see `best_terms`. Held jobs and jobs that
    are not eligible (begin time, dependency, array limit) have no line.

    Args:
        text: from `sprio -h -o PRIORITY_FORMAT`.
        known: what this function gave for an earlier answer.

    Raises:
        BatchSystemError: a line has another form.
    """
    return {line: known[line] if line in known else _parse_line(line) for line in text.splitlines()}


def best_terms(lines: Iterable[ListedJob], tiers: Mapping[str, int]) -> dict[int, PriorityTerms]:
    """Record number -> terms in the partition that can start it first.

    That is the one of the highest tier, and of several of that tier the one of the highest total.

    Args:
        lines: of `sprio`.
        tiers: partition -> its tier; LOWEST_TIER where none is known.
    """
    listed = list(lines)
    alone = {job_id: terms for job_id, _, _, terms in listed}
    if len(alone) == len(listed):  # nearly always: no job is in several partitions
        return alone
    best: dict[int, tuple[int, int, PriorityTerms]] = {}
    for job_id, partition, total, terms in listed:
        found = tiers.get(partition, LOWEST_TIER), total, terms
        if job_id not in best or found[:2] > best[job_id][:2]:
            best[job_id] = found
    return {job_id: terms for job_id, (_, _, terms) in best.items()}


def _parse_line(line: str) -> ListedJob:
    try:
        return _listed_job(line)
    except ValueError as error:
        raise not_understood("sprio", line) from error


def _listed_job(line: str) -> ListedJob:
    job_id, partition, total_text, site_text, nice, factors = line.split(SEPARATOR, 5)
    total, site = parse_integer(total_text), parse_integer(site_text)
    is_by_terms = site != NO_TERM and (site != 0 or factors[:1] in _NOT_ZERO)
    if is_by_terms and total > LEAST_PRIORITY:
        fields = factors.split(SEPARATOR)
        if len(fields) == _FIELDS:  # nearly all lines: the other factors tell nothing more
            rest = _nice_and_standing(nice, fields[1], fields[4], fields[5])
            terms = PriorityTerms(total - site, site, False, 0, *rest)
            return parse_integer(job_id), partition, total, terms
    return _listed_by_terms(line)


@lru_cache(maxsize=4096)  # most jobs of a site share them
def _nice_and_standing(nice: str, *points: str) -> tuple[int, int]:
    return parse_integer(nice), sum(map(parse_integer, points))


def _listed_by_terms(line: str) -> ListedJob:
    job_id, partition, numbers, tres = _cut(line)
    total, site, nice, *factors = numbers
    if tres:
        factors.append(round(sum(points for _, points in tres)))
    # a user's nice is a term as well: with a priority by hand Slurm shows none
    by_hand = site == NO_TERM or (not any((site, nice, *factors)) and total > ROUNDING)
    if by_hand:
        return job_id, partition, total, PriorityTerms(native=total, site=0, by_hand=True)
    native = total - site
    if total <= LEAST_PRIORITY:
        # Slurm cuts at 1, so that the total no longer tells what the rest adds up to.
        native = max(sum(factors) - nice, LEAST_PRIORITY)
    terms = PriorityTerms(
        *(native, site, False), nice=nice, standing=sum(numbers[each] for each in _STANDING)
    )
    return job_id, partition, total, terms


def parse_terms(text: str, jobs: Collection[int]) -> dict[str, dict[str, int]]:
    """Partition -> term -> points of a job, 0 left out but for the total and our term.

    Args:
        text: from `sprio -h -o PRIORITY_FORMAT`; of several records that are in one partition the
            first speaks, and words in place of a line say that it lists no such job.
        jobs: numbers of the job's records.

    Raises:
        BatchSystemError: a line has another form.
    """
    terms: dict[str, dict[str, int]] = {}
    for line in text.splitlines():
        if SEPARATOR not in line:
            continue
        try:
            job_id, partition, numbers, tres = _cut(line)
            points = dict(zip(TERMS, numbers, strict=True))
            points |= {f"tres_{name}": round(value) for name, value in tres}
        except ValueError as error:
            raise not_understood("sprio", line) from error
        if job_id in jobs and partition not in terms:
            terms[partition] = {name: points[name] for name in points if _tells(name, points[name])}
    return terms


def _tells(name: str, points: int) -> bool:
    return points != NO_TERM and (points != 0 or name in ("total", "site"))


def _cut(line: str) -> tuple[int, str, list[int], tuple[tuple[str, float], ...]]:
    """Job, partition, the numbers of TERMS, and name and points of each TRES.

    Raises:
        ValueError: the line has another form.
    """
    job_id, partition, *numbers, tres = line.split(SEPARATOR, len(TERMS) + 2)
    if len(numbers) != len(TERMS):
        raise ValueError(line)
    values = [parse_integer(number) for number in numbers]
    return parse_integer(job_id), partition, values, _points_of_tres(tres)


@lru_cache(maxsize=4096)
def _points_of_tres(text: str) -> tuple[tuple[str, float], ...]:
    parts = (part.partition("=") for part in text.split(",") if part)
    return tuple((name, bounded(float(points))) for name, _, points in parts)
