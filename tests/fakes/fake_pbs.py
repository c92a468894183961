"""OpenPBS 23.06's commands over one JSON file, in the form of recorded answers; for fast tests.

The programs in `pbs_bin` call `main`; tests describe the cluster with `FakePbs` of
`fake_pbs_cluster.py`. The state file is named by FAKE_PBS_STATE. Its `modes` make a command
misbehave: `hang`, `garbage`, `down`, `deny`, `lose` (accepts a value and forgets it), `operator`
(the user is no more than that), `busy` (takes a while for each question).
"""

import json
import math
import os
import re
import struct
import sys
import time

UNKNOWN_JOB, UNAUTHORIZED, WRONG_STATE, FINISHED = 153, 159, 167, 35
INVALID = 156
WAITING = "QHWTB"
SECONDS_A_QUESTION = 0.07  # as 23.06.06 on two busy cores
QUEUE_COMMAND = re.compile(
    r"(list|set|unset) queue (\w+) max_run_res"
    r"(?:\.(ncpus|ngpus|mem)(?: ([+-])= \[o:PBS_ALL=(\d+(?:kb)?)\])?)?"
)


def say(text):
    sys.stdout.write(text + "\n")


def complain(text):
    sys.stderr.write(text + "\n")


def main(command):
    path = os.environ["FAKE_PBS_STATE"]
    with open(path) as file:  # noqa: PTH123 (pathlib doubles the time that a fake takes)
        state = json.load(file)
    words = sys.argv[1:]
    mode = state["modes"].get(command, "")
    if mode == "hang":
        time.sleep(600)
    if mode == "garbage":
        say('{"timestamp": 12, "Jobs": {')
        return 0
    if mode == "down":
        complain("Connection refused")
        complain(f"{command}: cannot connect to server head (errno=15010)")
        return 1
    status = COMMANDS[command](state, words, mode)
    if command in ("qalter", "pbs_ifl", "qmgr") and not words[-1].startswith("list "):
        state["calls"] = [*state.get("calls", []), [command, *words]]
        beside = f"{path}.{os.getpid()}"  # whole or not at all: the test reads it meanwhile
        with open(beside, "w") as file:  # noqa: PTH123
            json.dump(state, file)
        os.replace(beside, path)  # noqa: PTH105
    return status


def qstat_queues(state, words):
    named = [word for word in words if word in state["queues"]]
    queues = {
        name: {
            "queue_type": "Execution",
            "state_count": f"Transit:0 Queued:{queue['queued']} Held:0 Waiting:0 Running:0 ",
            "resources_assigned": {"ncpus": queue["in_use"], "nodect": 1},
            **queue.get("attributes", {}),
        }
        for name, queue in state["queues"].items()
        if name in named[:1] or not named  # of several the first alone, as 23.06.06 does
    }
    say(json.dumps({**_head(), "Queue": queues}, indent=4))
    return 0


def qstat(state, words, mode):
    if "-Q" in words:
        return qstat_queues(state, words)
    if "-B" in words:
        say(json.dumps({**_head(), "Server": {"head": server(state)}}, indent=4))
        return 0
    history, subjobs = "-x" in words, "-t" in words
    full = {name.partition(".")[0]: name for name in state["jobs"]}
    asked = [full.get(word, word) for word in words if re.match(r"\d", word)]
    if mode == "busy":  # qstat asks once for each job that is named, unless -E has it ask together
        time.sleep(SECONDS_A_QUESTION * (1 if "-E" in words else max(len(asked), 1)))
    status, shown = 0, {}
    for name, job in state["jobs"].items():
        over = job["job_state"] in "FX"
        if asked and name not in asked and not (subjobs and _array_of(name) in asked):
            continue
        if not subjobs and "[" in name and "[]" not in name and name not in asked:
            continue
        if over and not history:
            if name in asked:
                complain(f"qstat: {name} Job has finished, use -x or -H to obtain historical job")
                status = FINISHED
            continue
        shown[name] = job_attributes(job)
    for name in asked:
        if name not in state["jobs"]:
            complain(f"qstat: Unknown Job Id {name}")
            status = UNKNOWN_JOB
    document = {**_head(), **({"Jobs": shown} if shown else {})}
    say(json.dumps(document, indent=4))
    return status


def _head():
    return {"timestamp": 1800000000, "pbs_version": "23.06.06", "pbs_server": "head"}


def _array_of(name):
    return re.sub(r"\[\d*\]", "[]", name)


def job_attributes(job):
    """As qstat shows a job: times are local, the score a number or the word nan."""
    shown = {}
    for name, value in job.items():
        is_time = name in ("ctime", "mtime", "qtime", "etime", "stime", "obittime")
        shown[name] = time.ctime(value) if is_time and value is not None else value
    return {name: value for name, value in shown.items() if value is not None}


def server(state):
    jobs = state["jobs"]
    counts = dict.fromkeys("TQHWREB", 0)
    for job in jobs.values():
        if job["job_state"] in counts:
            counts[job["job_state"]] += 1
    names = ("Transit", "Queued", "Held", "Waiting", "Running", "Exiting", "Begun")
    return {
        "server_state": "Active",
        "server_host": "head",
        "scheduling": "True",
        "total_jobs": sum(counts.values()),
        "state_count": "".join(
            f"{name}:{n} " for name, n in zip(names, counts.values(), strict=True)
        ),
        "default_queue": "workq",
        "resources_default": {"ncpus": 1, **state["defaults"]},
        "scheduler_iteration": 600,
        "pbs_version": "23.06.06",
        **state["server"],
    }


def pbsnodes(state, words, mode):
    nodes = {
        name: {
            "Mom": name,
            "state": node["state"],
            "resources_available": {
                "arch": "linux",
                "host": name,
                "ncpus": node["ncpus"],
                **node.get("available", {}),
            },
            "resources_assigned": {
                "ncpus": node["assigned"],
                "mem": "0kb",
                **node.get("taken", {}),
            },
        }
        for name, node in state["nodes"].items()
    }
    say(json.dumps({**_head(), "nodes": nodes}, indent=4))
    return 0


def pbsfs(state, words, mode):
    if not state["fairshare"]:
        complain("pbsfs: Unable to access fairshare data: Permission denied")
        return 1
    say("Fairshare usage units are in: cput")
    for name, (share, usage) in {"TREEROOT": (1.0, 1), **state["fairshare"]}.items():
        say(
            f"{name:<10}: Grp: {0:<5}  cgrp: {1:<5}"
            f"Shares: {10:<6} Usage: {usage:<6} Perc: {100 * share:6.3f}%"
        )
    return 0


def qalter(state, words, mode):
    change, name = words[1], words[2]
    resource, _, value = change.partition("=")
    status, said = alter(state, mode, name, resource, value)
    if status:
        complain(f"qalter: {said} {name}")
    return status


def alter(state, mode, name, resource, value):
    """Exit status of qalter, and the server's words where it refuses."""
    job = state["jobs"].get(name)
    if mode == "deny":
        return UNAUTHORIZED, "Unauthorized Request "
    if job is None or job["job_state"] in "FX":
        return UNKNOWN_JOB, "Unknown Job Id"
    if re.search(r"\[\d", name):
        return INVALID, "Invalid request"
    if job["job_state"] not in WAITING:
        return WRONG_STATE, "Request invalid for state of job "
    if resource != "rl_score":
        raise SystemExit(f"the fake PBS does not know: {resource}")
    if mode != "lose":
        set_score(state, job, value)
    return 0, ""


def set_score(state, job, value):
    """As the server: single precision, four decimals, and nothing against nan."""
    resources = job["Resource_List"]
    resources.pop("rl_score", None)
    if not value and "rl_score" in state["defaults"]:
        value = state["defaults"]["rl_score"]
    if value == "" or value is None:
        return
    number = float(value)
    if abs(number) < 3e38:
        number = round(struct.unpack("f", struct.pack("f", number))[0], 4)
    whole = math.isfinite(number) and number == int(number)
    resources["rl_score"] = int(number) if whole else number if math.isfinite(number) else "nan"


def pbs_ifl(state, words, mode):
    """What libpbs asks of the server; the library is `fake_libpbs.c`."""
    if words == ["connect"]:
        return 0
    if words[0] == "alter":
        status, said = alter(state, mode, *words[1:])
        say(said)
        return status
    queued = os.environ["FAKE_PBS_STATE"] + ".asynchronous"
    if os.path.exists(queued):  # noqa: PTH110
        with open(queued) as file:  # noqa: PTH123
            for line in file:
                alter(state, mode, *line.rstrip("\n").split("\t"))
        os.remove(queued)  # noqa: PTH107
    for name, job in state["jobs"].items():
        if job["job_state"] in "FX" or ("[" in name and "[]" not in name):
            continue
        for attribute, value in job.items():
            if isinstance(value, dict):
                for resource, each in value.items():
                    say(f"{name}\t{attribute}\t{resource}\t{each}")
            elif value is not None:
                say(f"{name}\t{attribute}\t\t{value}")
    return 0


def qmgr(state, words, mode):
    command = words[1]
    if command == "list resource rl_score":
        if state["resource"] is None:
            complain("qmgr obj=rl_score svr=default: Unknown resource")
            return 1
        say("Resource rl_score")
        for name, value in state["resource"].items():
            say(f"    {name} = {value}")
        return 0
    if command == "list sched":
        for name in state["schedulers"]:
            say(f"Sched {name}\n    partition = pbs-default\n    state = idle")
            for attribute, value in state.get("sched", {}).get(name, {}).items():
                say(f"    {attribute} = {value}")
            say("")
        return 0
    if command == "list hook":
        if mode == "operator":
            complain("slurmrl@head is unauthorized to access hooks data from server head")
            return 1
        for name in state["hooks"]:
            enabled = "false" if name in state.get("disabled_hooks", ()) else "true"
            say(f"Hook {name}\n    type = site\n    enabled = {enabled}\n    event = periodic\n")
        return 0
    if command == "set server scheduling = True":
        state["server"]["scheduling"] = "True"
        return 0
    if (told := QUEUE_COMMAND.fullmatch(command)) is None:
        raise SystemExit(f"the fake qmgr does not know: {command}")
    return queue_limit(state, mode, *told.groups())


def queue_limit(state, mode, verb, name, resource, sign, value):
    queue = state["queues"].get(name)
    if queue is None:
        return refuse(name, "Unknown queue", 1)
    limits = queue["limits"]
    if verb == "list":
        say(f"Queue {name}")
        for entity, number in sorted(limits.items()):
            other, _, who = entity.rpartition("/")
            say(f"    max_run_res.{other or 'ncpus'} = [{who}={number}]")
        return 0
    if mode == "deny":
        return refuse(name, "Unauthorized Request", UNAUTHORIZED)
    if queue.get("max_user_res"):
        return refuse(name, "Cannot mix old and new style queue/run limit enforcement types", 37)
    if mode == "lose":
        return 0
    of_resource = [each for each in limits if (each.rpartition("/")[0] or "ncpus") == resource]
    if verb == "unset":
        for each in of_resource:
            del limits[each]
        return 0
    entity = "o:PBS_ALL" if resource == "ncpus" else f"{resource}/o:PBS_ALL"
    number = int(value) if value.isdecimal() else value
    if sign == "+":
        limits[entity] = number
    elif limits.get(entity) == number:
        if of_resource == [entity]:  # gone, but pbs_server has it again when it starts anew
            queue.setdefault("back_after_restart", {})[entity] = number
        del limits[entity]
    return 0


def refuse(name, words, status):
    complain(f"qmgr obj={name} svr=default: {words}")
    return status


COMMANDS = {
    "qstat": qstat,
    "qalter": qalter,
    "qmgr": qmgr,
    "pbsnodes": pbsnodes,
    "pbsfs": pbsfs,
    "pbs_ifl": pbs_ifl,
}
