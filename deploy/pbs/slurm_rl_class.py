"""PBS hook, event queuejob: a new job gets the score of its class until the daemon places it.

An exception here would reject the submission, so this file raises none: a job without a class keeps
the server's default score. It runs in PBS's own isolated Python: only the standard library, no
asserts. The classes are in slurm_rl_class.json next to it.
"""

import json
import math
import re

import pbs

RESOURCE = "rl_score"
LOWEST, HIGHEST = 1, 2**24
#: Maximum characters that are read of the settings, and of a user's words.
LARGEST_FILE, LONGEST_NAME, LONGEST_TIME = 2**20, 256, 32


def score_of(job, settings):
    """The score of the first class that fits; None without a valid score."""
    for each in settings.get("classes", []):
        if fits(job, each):
            return sound(each.get("score"))
    return sound(settings.get("default"))


def sound(score):
    """A score that PBS stores exactly, and that is not below the default; else None."""
    if isinstance(score, bool) or not isinstance(score, (int, float)):
        return None
    return float(score) if math.isfinite(score) and LOWEST <= score <= HIGHEST else None


def fits(job, rule):
    """Whether all conditions of a class fit the job."""
    if "interactive" in rule and bool(getattr(job, "interactive", None)) != rule["interactive"]:
        return False
    if "queue" in rule and not re.search(rule["queue"], queue_of(job)):
        return False
    if "name" in rule and not re.search(rule["name"], name_of(job)):
        return False
    if "walltime_at_most" in rule:
        walltime = job.Resource_List["walltime"]
        return walltime is not None and 0 < seconds_of(walltime) <= rule["walltime_at_most"]
    return True


def name_of(job):
    """The job's name, up to PBS's maximum length."""
    return str(getattr(job, "Job_Name", "") or "")[:LONGEST_NAME]


def queue_of(job):
    """The requested queue; empty for the default queue."""
    queue = getattr(job, "queue", None)
    return str(getattr(queue, "name", queue) or "")[:LONGEST_NAME]


def seconds_of(walltime):
    """Seconds of PBS's duration, or of HH:MM:SS; infinite for any other text."""
    if not isinstance(walltime, str):
        return int(walltime)
    parts = walltime[: LONGEST_TIME + 1].split(":")
    if len(walltime) > LONGEST_TIME or not all(part.isdecimal() for part in parts):
        return math.inf
    seconds = 0
    for part in parts:
        seconds = 60 * seconds + int(part)
    return seconds


def main():
    """Give the job of this event its score."""
    with open(pbs.hook_config_filename, encoding="utf-8") as file:
        settings = json.loads(file.read(LARGEST_FILE))
    job = pbs.event().job
    score = score_of(job, settings)
    if score is not None:
        job.Resource_List[RESOURCE] = score


def log(error):
    """Write to the server's log, if possible: PBS 23 with a new Python raises here."""
    try:
        pbs.logmsg(
            pbs.LOG_WARNING, "slurm_rl_class: the job keeps the default score: %r" % (error,)
        )
    except BaseException:
        pass


try:
    main()
except BaseException as error:
    log(error)
