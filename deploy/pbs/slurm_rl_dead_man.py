"""PBS hook, event periodic: restore the site's own formula if the daemon's heartbeat stops.

A daemon that ends rolls back its scores and removes the heartbeat file. A killed daemon leaves
both: then this hook sets or unsets job_sort_formula with qmgr, once, and renames the file. It does
not change a formula without our score. It runs in PBS's own isolated Python: only the standard
library, no asserts. Its settings are in slurm_rl_dead_man.json next to it.
"""

import json
import os
import re
import subprocess
import time

import pbs

#: Time-outs of the query and of the change; together less than the hook's own alarm.
SECONDS_OF_LOOK, SECONDS_OF_QMGR = 8, 20
#: Maximum characters that are read of the settings.
LARGEST_FILE = 2**20


def is_stale(path, seconds):
    """Whether the heartbeat is older; without the file there is nothing to undo."""
    try:
        return time.time() - os.lstat(path).st_mtime > seconds  # noqa: TID251
    except FileNotFoundError:
        return False


def command_of(settings):
    """The qmgr command that restores the site's own formula."""
    formula = settings.get("formula", "")
    if not formula:
        return "unset server job_sort_formula"
    return 'set server job_sort_formula = "%s"' % formula.replace('"', "'")


def qmgr_of(settings):
    """Path of qmgr."""
    return settings.get("qmgr") or os.path.join(pbs.pbs_conf["PBS_EXEC"], "bin", "qmgr")


def is_ours(settings):
    """Whether the formula has our score; true if qmgr does not answer."""
    try:
        done = subprocess.run(
            [qmgr_of(settings), "-c", "list server job_sort_formula"],
            check=True,
            timeout=SECONDS_OF_LOOK,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
        )
    except Exception:
        return True
    words = done.stdout.decode("utf-8", "replace").replace("\n\t", "")  # joins a long value
    return re.search(r"\brl_score\b", words) is not None


def main():
    """Check the heartbeat, and restore the formula once."""
    with open(pbs.hook_config_filename, encoding="utf-8") as file:
        settings = json.loads(file.read(LARGEST_FILE))
    path = settings["heartbeat"]
    if not is_stale(path, float(settings["stale_seconds"])):
        return
    if not is_ours(settings):
        os.replace(path, path + ".expired")
        log("no heartbeat of the daemon; its score is not in the formula: no change")
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
    log("no heartbeat of the daemon for %s s: %s" % (settings["stale_seconds"], command))


def log(words):
    """Write to the server's log, if possible."""
    try:
        pbs.logmsg(pbs.LOG_WARNING, "slurm_rl_dead_man: %s" % (words,))
    except BaseException:
        pass


try:
    main()
except BaseException as error:
    log(repr(error))
