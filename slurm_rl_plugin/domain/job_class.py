"""Job classes: an ordered list of rules says which jobs are interactive, and why."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from datetime import datetime
from functools import lru_cache
from typing import NamedTuple

from slurm_rl_plugin.domain.utility_class import BATCH, BUILT_IN, UtilityClass
from slurm_rl_plugin.errors import ConfigurationError
from slurm_rl_plugin.units import HOUR, SHORT_JOB_RUN_TIME

_QUICK = r"(?i)(^|[-_])(interactive|interact|debug|short|dev|devel|test)($|[-_])"

#: What a user may write with a job.
_ASKED = re.compile(r"slurm-rl:([^\s=]{0,64})=?(\S{0,64})")


@dataclass(frozen=True, slots=True, kw_only=True)
class JobDescription:
    """The words of one job, as the batch system gives them, at which a class rule may look."""

    partition: str  #: where it was submitted; all, with commas, for a job that names several
    qos: str  #: quality of service; empty where there is none
    name: str  #: job name, any text
    time_limit: float  #: requested run time in seconds; NaN where none is known
    has_batch_script: bool | None  #: False for a job started from a terminal; None where unknown
    account: str  #: account that is charged
    user: str  #: login name of the owner
    words: str = ""  #: what the user wrote for us with the job, as `words_for_us` finds it


def words_for_us(text: str) -> str:
    """The part of a comment that is meant for us; of several the last one counts, "" for none."""
    return next((each[0] for each in reversed([*_ASKED.finditer(text)])), "")


class JobClass(NamedTuple):
    """The class of one job and what made it so."""

    number: int  #: place of the class in `JobClassifier.classes`
    interactive: bool  #: whether the class counts as interactive
    #: Interactive only by its time limit, which does not count for sessions without a script.
    by_limit: bool = False
    by_user: bool = False  #: interactive only because its user chose the class
    allowed: float = math.nan  #: seconds from eligibility to its user's own deadline; NaN for none


@dataclass(frozen=True, slots=True, kw_only=True)
class JobClassRule:
    """One rule; it matches a job if everything that it names matches.

    Raises:
        ConfigurationError: no class, a broken expression, or a rule that names nothing.
    """

    job_class: str  #: "interactive", "batch" or a class of the site's own
    #: partition, qos, name, account, user: regular expressions searched in the job's field. Of
    #: several partitions or QOS that a job names, one of them must fit a batch rule and every one
    #: another rule: it may start in any.
    partition: str | None = None
    qos: str | None = None
    name: str | None = None
    account: str | None = None
    user: str | None = None
    time_limit_at_most: float | None = None  #: seconds; a job without a known limit does not match
    no_batch_script: bool | None = None  #: True matches jobs started by srun or salloc

    def __post_init__(self) -> None:
        if not isinstance(self.job_class, str) or not self.job_class:
            raise _unknown(self.job_class, BUILT_IN)
        if not self._named():
            raise ConfigurationError(
                f"a job-class rule for {self.job_class} names nothing to match: name a partition, "
                "qos, name, account, user, time_limit_at_most or no_batch_script."
            )
        limit = self.time_limit_at_most
        if limit is not None and (isinstance(limit, bool | str) or not limit >= 0):
            raise ConfigurationError(
                f"job-class time_limit_at_most is {limit!r}: give seconds, a number of at least 0."
            )
        if self.no_batch_script not in (None, True, False):
            raise ConfigurationError(
                f"job-class no_batch_script is {self.no_batch_script!r}: give true or false."
            )
        for pattern in (self.partition, self.qos, self.name, self.account, self.user):
            try:
                re.compile(pattern or "")
            except (re.error, TypeError) as error:
                raise ConfigurationError(
                    f"job-class pattern {pattern!r} is no regular expression: {error}."
                ) from None

    def matches(self, job: JobDescription) -> bool:
        """Whether everything that the rule names fits the job."""
        named = (  # most are None, and a queue asks 100,000 times
            (self.partition is None or self._fits_named(self.partition, job.partition))
            and (self.qos is None or self._fits_named(self.qos, job.qos))
            and (self.name is None or _fits(self.name, job.name))
            and (self.account is None or _fits(self.account, job.account))
            and (self.user is None or _fits(self.user, job.user))
        )
        if not named:
            return False
        if self.time_limit_at_most is not None:
            limit = job.time_limit
            if math.isnan(limit) or limit > self.time_limit_at_most:
                return False
        if self.no_batch_script is not None:
            return job.has_batch_script is (not self.no_batch_script)
        return True

    def _fits_named(self, pattern: str, names: str) -> bool:
        """Whether some names with commas between fit; nearly always it is one."""
        if "," not in names:
            return _fits(pattern, names)
        enough = any if self.job_class == BATCH else all
        return enough(_fits(pattern, name) for name in names.split(","))

    def __str__(self) -> str:
        what = ", ".join(f"{key}={value!r}" for key, value in self._named().items())
        return f"{self.job_class} if {what}"

    def _named(self) -> dict[str, object]:
        values = {each.name: getattr(self, each.name) for each in fields(self)[1:]}
        return {key: value for key, value in values.items() if value is not None}


def _unknown(name: object, classes: Mapping[str, UtilityClass]) -> ConfigurationError:
    return ConfigurationError(
        f"job class {name!r} is unknown: give {', '.join(sorted(classes))}, or add [utility.NAME]."
    )


@lru_cache(maxsize=4096)  # a queue has few partitions and QOS; names of jobs pass through
def _fits(pattern: str, text: str) -> bool:
    return re.search(pattern, text) is not None


#: Of the default rule for jobs without a batch script: a working day. No user attends a longer
#: one, and without a bound `salloc` would be a way for any batch work.
LONGEST_SESSION = 8 * HOUR
#: Used where a site configures none: what names itself interactive, comes without a batch script
#: for a session, or promises to be done within a quarter of an hour.
DEFAULT_JOB_CLASS_RULES = (
    JobClassRule(job_class="interactive", partition=_QUICK),
    JobClassRule(job_class="interactive", qos=_QUICK),
    JobClassRule(job_class="interactive", no_batch_script=True, time_limit_at_most=LONGEST_SESSION),
    JobClassRule(job_class="interactive", time_limit_at_most=SHORT_JOB_RUN_TIME),
)


@dataclass(frozen=True, slots=True)
class JobClassifier:
    """Applies rules in order; the first match decides, and no match means batch.

    Raises:
        ConfigurationError: a rule names a class that is none of them.
    """

    rules: Sequence[JobClassRule] = DEFAULT_JOB_CLASS_RULES  #: in order
    #: By name, each with its time utility.
    classes: Mapping[str, UtilityClass] = field(default_factory=lambda: BUILT_IN)

    def __post_init__(self) -> None:
        for rule in self.rules:
            if rule.job_class not in self.classes:
                raise _unknown(rule.job_class, self.classes)

    @property
    def own(self) -> dict[str, dict[str, object]]:
        """The keys of each class that is not the paper's, but for who may choose it."""
        return {
            name: {key: value for key, value in each.table.items() if key != "users"}
            for name, each in self.classes.items()
            if each != BUILT_IN.get(name)
        }

    @property
    def users_choose(self) -> bool:
        """Whether users may choose a class for their jobs."""
        return any(each.users for each in self.classes.values())

    def class_of(self, job: JobDescription) -> str:
        """The name of the job's class by the rules."""
        rule = self.matching_rule(job)
        return BATCH if rule is None else rule.job_class

    def job_class(self, job: JobDescription, since: float) -> JobClass:
        """The job's class: the one that its user asks for and may choose, else by the rules.

        `since` is when it could first have started, seconds since the epoch.
        """
        name = self.class_of(job)
        own, by_rules, allowed = self.classes[name], self.classes[name].interactive, math.nan
        asked = self.asked_by_user(job.words, since) if job.words else None
        if isinstance(asked, tuple):
            name, own = asked
            if own is not self.classes[name] and own.hours is not None:
                allowed = own.hours * HOUR
        by_limit = (
            own.interactive
            and by_rules
            and job.has_batch_script is not False
            and not self.is_interactive(replace(job, time_limit=math.inf))
        )
        number = list(self.classes).index(name)
        return JobClass(
            number, own.interactive, by_limit, own.interactive and not by_rules, allowed
        )

    def asked_by_user(self, words: str, since: float) -> tuple[str, UtilityClass] | str | None:
        """The class that a job's user asks for, or in words why that is ignored; None for neither.

        An own deadline makes the job one of the first class with `hours` that users may choose,
        and lies at most these hours after `since`, when the job could first have started. Words
        are such as `slurm-rl:class=NAME` or, in local time, `slurm-rl:deadline=2027-01-31T12:00`.
        """
        found = _ASKED.search(words)
        if found is None:
            return None
        what, value = found.groups()
        free = {name: each for name, each in self.classes.items() if each.users}
        if not free:
            return "users may choose no class"
        if what == "class":
            refused = f"class {value!r} is none of those that users may choose: {', '.join(free)}"
            return (value, free[value]) if value in free else refused
        if what == "deadline":
            return _own_deadline(free, value, since)
        return f"{what!r} is neither class nor deadline"

    def is_interactive(self, job: JobDescription) -> bool:
        """Whether the job's class by the rules counts as interactive."""
        return self.classes[self.class_of(job)].interactive

    def matching_rule(self, job: JobDescription) -> JobClassRule | None:
        """The first rule that matches; None where none does and the job is batch."""
        return next((rule for rule in self.rules if rule.matches(job)), None)


def _own_deadline(
    free: Mapping[str, UtilityClass], time: str, since: float
) -> tuple[str, UtilityClass] | str:
    due, most = next(((name, each.hours) for name, each in free.items() if each.hours), ("", None))
    if most is None:
        return "users may choose no class with hours, which bound a deadline"
    try:
        left = datetime.fromisoformat(time).timestamp() - since
    except (ValueError, OverflowError):
        return f"{time!r} is no time such as 2027-01-31T12:00"
    if left <= 0.0:
        return f"{time!r} is over before the job could start"
    if left > most * HOUR:
        return f"{time!r} is later than the {most:g} hours of class {due}"
    return due, replace(free[due], hours=left / HOUR)
