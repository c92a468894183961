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
