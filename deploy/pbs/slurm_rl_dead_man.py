"""PBS hook, event periodic: without a sign of life of the daemon the site's own formula comes back.

A daemon that ends takes its scores back and the heartbeat file away. One that was killed leaves
both: then this hook has qmgr set or unset job_sort_formula, once, and renames the file. A formula
without our score is the site's, so it stays. It runs in PBS's own isolated Python: no package but
the standard library, no asserts. What it goes by stands in slurm_rl_dead_man.json beside it.
"""

import json
import os
import re
import subprocess
import time

import pbs

#: Of a look and of the change; together less than the hook's own alarm, which must not come first.
SECONDS_OF_LOOK, SECONDS_OF_QMGR = 8, 20
#: Of the settings: more is not read.
LARGEST_FILE = 2**20


def is_stale(path, seconds):
    """Whether a daemon has been silent for longer; without a file there is nothing to undo."""
    try:
        return time.time() - os.lstat(path).st_mtime > seconds  # noqa: TID251
    except FileNotFoundError:
        return False


def command_of(settings):
    """The qmgr line that brings the site's own formula back."""
    formula = settings.get("formula", "")
    if not formula:
        return "unset server job_sort_formula"
    return 'set server job_sort_formula = "%s"' % formula.replace('"', "'")


def qmgr_of(settings):
    """Where qmgr is."""
    return settings.get("qmgr") or os.path.join(pbs.pbs_conf["PBS_EXEC"], "bin", "qmgr")


def is_ours(settings):
    """Whether the formula holds our score; where that cannot be told it is taken for ours."""
    try:
        told = subprocess.run(
            [qmgr_of(settings), "-c", "list server job_sort_formula"],
            check=True,
            timeout=SECONDS_OF_LOOK,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
        )
    except Exception:
        return True
    words = told.stdout.decode("utf-8", "replace").replace("\n\t", "")  # of a long value
    return re.search(r"\brl_score\b", words) is not None


def main():
    """Look at the file, and act once."""
    with open(pbs.hook_config_filename, encoding="utf-8") as file:
        settings = json.loads(file.read(LARGEST_FILE))
    path = settings["heartbeat"]
    if not is_stale(path, float(settings["stale_seconds"])):
        return
    if not is_ours(settings):
        os.replace(path, path + ".expired")
        tell("no sign of life of the daemon, whose score is not in the formula: it stays")
        return
    command = command_of(settings)
    subprocess.run(
        [qmgr_of(settings), "-c", command],
        check=True,
        timeout=SECONDS_OF_QMGR,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    os.replace(path, path + ".expired")
    tell("no sign of life of the daemon for %s s: %s" % (settings["stale_seconds"], command))


def tell(words):
    """Leave a line in the server's log, if that works."""
    try:
        pbs.logmsg(pbs.LOG_WARNING, "slurm_rl_dead_man: %s" % (words,))
    except BaseException:
        pass


try:
    main()
except BaseException as error:
    tell(repr(error))
