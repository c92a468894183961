"""Runs a hook as PBS does: isolated, without site-packages and asserts, with a module `pbs`.

    python3 -I -S -O pbs_hook_runner.py HOOK.py EVENT.json

EVENT.json holds `config` (path), `pbs_exec`, and `job` (attributes, `Resource_List` among them) or
null. Prints {"job": ..., "log": [...], "ended": how} as JSON.
"""

import json
import sys
import types

if not (sys.flags.isolated and sys.flags.no_site and sys.flags.optimize):
    raise SystemExit("run it as PBS runs hooks: python3 -I -S -O")

with open(sys.argv[2]) as file:  # noqa: PTH123
    event = json.load(file)
log = []


class Resources(dict):
    def __missing__(self, name):
        return None

    def __setitem__(self, name, value):
        if name != "rl_score" or not isinstance(value, float):
            raise TypeError("the fake server takes only a float rl_score")
        super().__setitem__(name, value)


class Job:
    def __init__(self, values):
        self.__dict__.update(values)
        self.Resource_List = Resources(values.get("Resource_List", {}))


class Event:
    job = Job(event["job"]) if event["job"] is not None else None


pbs = types.ModuleType("pbs")
pbs.LOG_WARNING = 4
pbs.hook_config_filename = event["config"]
pbs.pbs_conf = {"PBS_EXEC": event["pbs_exec"]}
pbs.event = Event
pbs.logmsg = lambda level, words: log.append(words)
if event.get("broken_log"):
    del pbs.logmsg
sys.modules["pbs"] = pbs

ended = "accepted"
try:
    with open(sys.argv[1]) as file:  # noqa: PTH123
        exec(compile(file.read(), sys.argv[1], "exec"), {"__name__": "__main__"})
except BaseException as error:  # noqa: BLE001
    ended = repr(error)
job = dict(Event.job.Resource_List) if Event.job is not None else None
print(json.dumps({"job": job, "log": log, "ended": ended}))  # noqa: T201
