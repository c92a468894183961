"""Why a job waits, in the words of PBS's scheduler: the job's comment, which no user can set."""

from __future__ import annotations

import re

#: A limit of the user, group or project; the overall one of a queue or the server is the site's.
_OWN_LIMIT = re.compile(
    r"\b(per-)?(user|group|project)\b.*\blimit\b|job limit reached for (user|group|project)\b",
    re.IGNORECASE,
)
#: All that is ever told of an array that has begun, whatever its other subjobs wait for.
_BEGUN = "Job Array Began"
#: What more free processors would mend; and the overall limit, which ours on batch queues is.
_FOR_PROCESSORS = re.compile(
    r"resource: (ncpus|nodect)\b|available resources on nodes|enough free nodes|top job"
    r"|too few free resources|exclusive node|starving|strict sorted order"
    r"|overall limit on resource (ncpus|ngpus|mem)\b",
    re.IGNORECASE,
)


def is_own_doing(comment: str) -> bool:
    """Whether the job waits by what its user controls: a limit of the user or the project."""
    return _OWN_LIMIT.search(comment) is not None


def is_for_processors(comment: str) -> bool:
    """Whether it waits for processors alone; so does one of which PBS does not tell."""
    untold = not comment or comment.startswith(_BEGUN)
    return untold or _FOR_PROCESSORS.search(comment) is not None


_WAIT = "wait"
_ADMINISTRATORS = "ask the administrators"
_LESS = "wait, or ask for less"
_NODES = "wait, or ask for other nodes"
#: States of PBS that say more than the scheduler's last comment, by their letters.
STATES = {"H": "Held", "W": "Waiting"}
_NEVER = "can never run:"
#: Form of a comment -> what it means for the job, and what its user can do; the first match counts.
#: Groups of the form fill the braces.
_COMMENTS = tuple(
    (re.compile(form, re.IGNORECASE), meaning, advice)
    for form, meaning, advice in (
        (
            "held$",
            "a hold is on the job, or it depends on a job",
            "use `qrls`, or wait for that job",
        ),
        (
            "waiting$",
            "the earliest start time of the job lies ahead",
            "wait, or change it with `qalter -a`",
        ),
        (
            r"node has reached (?:job|user|group) run limit",
            "nodes run as many jobs as PBS allows on them",
            _WAIT,
        ),
        (
            r".*\b(user|group|project)\b.*\blimit\b.*\bresource (\w+)",
            "the {0} has too little left of the limit on {1}",
            _LESS,
        ),
        (
            r"(user|group|project) has reached .*\blimit"
            r"|.*\bjob limit reached for (user|group|project)\b",
            "the {0} has as many running jobs as allowed",
            "wait until one ends",
        ),
        (
            r".*\boverall limit on resource (\w+)",
            "running jobs of all users hold the limit on {0}",
            _LESS,
        ),
        (
            r"(queue|server)\b.*\bjob limit has been reached",
            "the {0} has as many running jobs as allowed",
            _WAIT,
        ),
        (r"insufficient amount of (?:\w+ )?resource: (\w+)", "too little {0} is free", _LESS),
        ("queue not started", "the queue starts no jobs", "wait, or use `qmove`"),
        (
            "queue not an execution queue",
            "the job is in a queue that only routes jobs",
            "wait, or use `qmove`",
        ),
        (
            ".*dedicated time",
            "dedicated time has begun, or begins before the job could end",
            "wait, or ask for a shorter walltime",
        ),
        (
            "job (?:will run in|will cross into)",
            "the queue starts the job only in another part of the day (primetime or not)",
            "wait, or ask for a shorter walltime",
        ),
        (
            ".*top job",
            "the job would delay a job before it, or a reservation",
            "wait, or ask for a shorter walltime",
        ),
        (
            ".*(?:confirmed |existing job/)reservation",
            "the job would overlap a reservation",
            "wait, or ask for a shorter walltime",
        ),
        (
            ".*strict sorted order",
            "PBS starts jobs in strict order, and a job before this one still waits",
            "wait for its turn",
        ),
        (
            ".*under job_sort_formula threshold",
            "the score of the job is below job_sort_formula_threshold",
            _ADMINISTRATORS,
        ),
        (
            ".*concurrent running subjobs limit",
            "as many subjobs of the array run as its user allows at a time",
            "wait, or raise max_run_subjobs with `qalter`",
        ),
        ("job array began", "subjobs of the array have started, and the others wait", _WAIT),
        (
            ".*zero shares for fairshare",
            "the user or account has no fairshare shares",
            _ADMINISTRATORS,
        ),
        (
            ".*not enough total nodes|.*specified .* does not exist"
            "|.*can't satisfy a multi-node|.*can't fit in the largest placement set",
            "no set of nodes can hold the job",
            "change the request with `qalter`",
        ),
        (
            ".*exclusive node",
            "the job wants nodes to itself, and other jobs run on them",
            "wait, or ask for shared nodes",
        ),
        (
            ".*pack placement",
            "no single node has room for the whole job",
            "wait, or ask for free placement",
        ),
        (
            ".*right type of nodes|.*ineligible type|.*not eligible for advance reservation",
            "too few nodes of the right type are free",
            _NODES,
        ),
        (".*ineligible state", "nodes that the job needs are down or offline", _NODES),
        (
            ".*not enough free nodes|.*no available resources on nodes|.*nodes not available"
            "|.*too few free resources|.*small cpusets",
            "too few nodes are free",
            _LESS,
        ),
        (
            ".*can't preempt enough work",
            "PBS cannot preempt enough running jobs for the job",
            _WAIT,
        ),
        (
            ".*(?:provision|requested [ae]oe)",
            "PBS cannot install the system that the job asks for on a node now",
            _ADMINISTRATORS,
        ),
        (".*no pbs license", "nodes have no licence of PBS", _ADMINISTRATORS),
        (".*mission (?:cpu )?share", "the group would exceed its share of processors", _LESS),
        (
            "pbs error|.*internal scheduling error|.*invalid job/resv|.*not in queued state",
            "PBS could not start the job",
            _ADMINISTRATORS,
        ),
    )
)


def comment_sentence(comment: str) -> str:
    """What a comment means for the job, and what its user can do: one sentence, no full stop.

    Args:
        comment: the job's, or a word of `STATES`.
    """
    never = comment.lower().startswith(_NEVER)
    words = re.sub(r"^(?:not running|can never run):\s*", "", comment.strip(), flags=re.IGNORECASE)
    for form, meaning, advice in _COMMENTS:
        found = form.match(words)
        if found is not None:
            parts = [part.lower() for part in found.groups() if part]
            said = meaning.format(*parts)
            return f"{said}, at all times; change the request" if never else f"{said}; {advice}"
    return f"this release of slurm-rl does not know the reason; {_ADMINISTRATORS}"
