"""PBS hook, event periodic: without a sign of life of the daemon the site's own formula comes back.

A daemon that ends takes its scores back and the heartbeat file away. One that was killed leaves
both: then this hook has qmgr set or unset job_sort_formula, once, and renames the file. It runs in
PBS's own isolated Python: no package but the standard library, no asserts. What it goes by stands
in slurm_rl_dead_man.json beside it.
"""

import json
import os
import subprocess
import time

import pbs

#: The hook's own alarm must not come first.
SECONDS_OF_QMGR = 20
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


def main():
    """Look at the file, and act once."""
    with open(pbs.hook_config_filename, encoding="utf-8") as file:
        settings = json.loads(file.read(LARGEST_FILE))
    path = settings["heartbeat"]
    if not is_stale(path, float(settings["stale_seconds"])):
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
