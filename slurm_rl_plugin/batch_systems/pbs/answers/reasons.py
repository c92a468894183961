"""Why a job waits, in the words of PBS's scheduler: the job's comment, which no user can set."""

from __future__ import annotations

import re
import tomllib
from functools import cache
from pathlib import Path

from slurm_rl_plugin.whole_file import read_whole

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


_ADMINISTRATORS = "ask the administrators"
#: States of PBS that say more than the scheduler's last comment, by their letters.
STATES = {"H": "Held", "W": "Waiting"}
_NEVER = "can never run:"


@cache
def _comments() -> list[tuple[re.Pattern[str], str, str]]:
    """Form of a comment, what it means for the job, and what its user can do."""
    told = tomllib.loads(read_whole(Path(__file__).with_name("comments.toml")).decode())
    return [(re.compile(form, re.IGNORECASE), *words) for form, *words in told["comments"]]


def comment_sentence(comment: str) -> str:
    """What a comment means for the job, and what its user can do: one sentence, no full stop."""
    never = comment.lower().startswith(_NEVER)
    words = re.sub(r"^(?:not running|can never run):\s*", "", comment.strip(), flags=re.IGNORECASE)
    for form, meaning, advice in _comments():
        found = form.match(words)
        if found is not None:
            parts = [part.lower() for part in found.groups() if part]
            said = meaning.format(*parts)
            return f"{said}, at all times; change the request" if never else f"{said}; {advice}"
    return f"this release of slurm-rl does not know the reason; {_ADMINISTRATORS}"
