"""Slurm 22.05's commands over one JSON file, as recorded in tests/assets/slurm; for fast tests.

The programs in `bin` call `main`; tests describe the cluster with `FakeCluster` of
`fake_cluster.py`. The state file is named by FAKE_SLURM_STATE. Its `modes` make a command
misbehave: `hang`, `garbage`, `down`, `deny`, or `fail:WORDS`.
"""

import os
import sys
import time
from _json import make_scanner

NO_TERM = -2147483648
FACTORS = {"%A": "age", "%B": "assoc", "%F": "fairshare", "%J": "size", "%P": "part", "%Q": "qos"}
PART_FACTOR = {"batch": 100, "short": 1000, "debug": 500}


class Scanner:
    """As of `json.loads`; to import `json` takes longer than all else that a fake does."""

    strict = True
    object_hook = object_pairs_hook = None
    parse_float = parse_constant = float
    parse_int = int


def say(text):
    sys.stdout.write(text + "\n")


def complain(text):
    sys.stderr.write(text + "\n")


def main(command):
    path = os.environ["FAKE_SLURM_STATE"]
    with open(path) as file:  # noqa: PTH123 (pathlib doubles the time that a fake takes)
        state, _ = make_scanner(Scanner)(file.read(), 0)
    mode = state["modes"].get(command, "")
    if mode == "hang":
        time.sleep(600)
    if mode == "garbage":
        say("%!| this is no answer\nnor | this")
        return 0
    if mode == "down":
        name = "slurm_load_jobs" if command == "squeue" else command
        complain(f"{name} error: Unable to contact slurm controller (connect failure)")
        return 1
    if mode.startswith("fail:"):
        complain(mode.removeprefix("fail:"))
        return 1
    before = repr(state)
    status = COMMANDS[command](state, sys.argv[1:], mode)
    if repr(state) != before:  # whole, as a test may read it at the same time
        import json  # noqa: PLC0415

        beside = f"{path}.{os.getpid()}"
        with open(beside, "w") as file:  # noqa: PTH123
            json.dump(state, file)
        os.replace(beside, path)  # noqa: PTH105
    return status


def squeue(state, words, mode):
    form = _option(words, "-O") or os.environ["SQUEUE_FORMAT2"]
    fields = [field.partition(":")[::2] for field in form.split(",")]
    states = _option(words, "--states")
    asked = _option(words, "--jobs")
    jobs = state["jobs"]
    if asked:
        ids = {int(number) for number in asked.split(",")}
        jobs = [job for job in jobs if job["array_id"] in ids or job["het_id"] in ids]
        if not jobs and "," not in asked:
            complain("slurm_load_jobs error: Invalid job id specified")
            return 1
    if states != "all":
        jobs = [job for job in jobs if job["state"] in states.split(",")]
    for job in sorted(jobs, key=lambda job: -_total(job)):
        values = _queue_values(job)
        sys.stdout.write("".join(values[name] + suffix for name, suffix in fields) + "\n")
    return 0


#: Fields of squeue, and what a test calls them.
SHOWN = """
JobID=job_id ArrayJobID=array_id State=state Reason=reason Nice=nice NumCPUs=processors
SubmitTime=submit TimeLimit=time_limit Account=account UserName=user Partition=partition QOS=qos
BatchFlag=batch NodeList=nodes tres-alloc=asks NumTasks=tasks_asked MinMemory=memory
tres-per-job=per_job tres-per-node=per_node tres-per-task=per_task Licenses=licenses
Feature=constraint Name=name
"""
#: The same of fields that print N/A for no value.
OR_NONE = {"EligibleTime": "eligible", "StartTime": "start", "EndTime": "end"}


def _queue_values(job):
    values = {name: str(job[key]) for name, key in (pair.split("=") for pair in SHOWN.split())}
    for name, key in OR_NONE.items():
        values[name] = "N/A" if job[key] is None else str(job[key])
    return values | {
        "PriorityLong": str(_total(job)),
        "AccrueTime": "N/A" if _accrue(job) is None else str(_accrue(job)),
        "ArrayTaskID": job["tasks"] or "N/A",
        "HetJobID": str(job["het_id"] or "N/A"),
        "cpus-per-task": "1",
        "Sockets": "*",
        "cpus-per-tres": f"gres:gpu:{job['per_gpu']}" if job["per_gpu"] else "N/A",
        "tres-per-socket": "N/A",
        "OverSubscribe": "NO" if job["exclusive"] else "OK",
        "Exclusive": "NODE" if job["exclusive"] else "NO",
        "OriginRaw": job["siblings"][0],
        "SiblingsViableRaw": job["siblings"][1],
        "Comment": job["comment"] or "(null)",
    }


def _accrue(job):
    """Since it was eligible, unless a test says otherwise."""
    return job["eligible"] if job["accrue"] == "eligible" else job["accrue"]


def sprio(state, words, mode):
    if state["settings"].get("PriorityType") == "priority/basic":
        complain("sprio error: priority/basic: not a supported priority plugin")
        return 1
    form = _option(words, "-o")
    for job in state["jobs"]:
        if job["state"] != "PENDING" or job["eligible"] is None or _held(job):
            continue
        if job["eligible"] > state["now"]:
            continue
        for partition in job["partition"].split(","):
            values = _terms(job, partition)
            line = form
            for name, value in values.items():
                line = line.replace(name, str(value))
            say(line)
    return 0


def _terms(job, partition):
    values = {"%i": job["job_id"], "%r": partition, "%Y": _total(job, partition), "%T": job["tres"]}
    factors = dict(job["factors"], part=PART_FACTOR[partition])
    if job["by_hand"] is None:
        values.update({letter: factors[name] for letter, name in FACTORS.items()})
        return {**values, "%S": job["site"], "%N": _counted_nice(job)}
    values.update(dict.fromkeys(FACTORS, 0))
    if "," not in job["partition"]:
        return {**values, "%S": 0, "%N": 0}
    factor = PART_FACTOR[partition]
    return {**values, "%P": factor, "%Y": factor, "%S": NO_TERM, "%N": NO_TERM}


def _total(job, partition=None):
    if _held(job):
        return 0
    if job["by_hand"] is not None:
        return job["by_hand"]
    part = PART_FACTOR[partition or job["partition"].partition(",")[0]]
    tres = sum(float(item.partition("=")[2]) for item in job["tres"].split(",") if item)
    total = sum(job["factors"].values()) + part + tres + job["site"] - _counted_nice(job)
    return max(1, int(total))


def _counted_nice(job):
    """That of the last calculation of priorities; `sprio` shows it until the next one."""
    return job["nice"] if job["counted_nice"] is None else job["counted_nice"]


def _held(job):
    return job["reason"] in ("JobHeldUser", "JobHeldAdmin")


def sshare(state, words, mode):
    for row in state["shares"]:
        say("|".join(row))
    return 0


def sbatch(state, words, mode):
    """Of the state: `wait`, seconds until a start or words that refuse; `refusals` of clusters."""
    wait = state.get("wait", 0)
    cluster = next((word for word in words if word.startswith("--clusters=")), "")
    if isinstance(wait, str):
        complain(
            f"allocation failure: {wait}" if "--test-only" in words else f"sbatch: error: {wait}"
        )
        return 1
    if "--test-only" in words:
        start = int(time.time()) + wait  # noqa: TID251 - slurmctld's own clock
        complain(
            f"sbatch: Job 77 to start at {start} using 1 processors on nodes n1 in partition batch"
        )
        return 0
    refusal = state.get("refusals", {}).get(cluster.partition("=")[2])
    if state.get("denied") and any(word.startswith("--reservation=") for word in words):
        refusal = "Access denied to requested reservation"
    if refusal:
        complain(f"sbatch: error: Batch job submission failed: {refusal}")
        return 1
    with open(os.environ["FAKE_SLURM_STATE"] + ".submitted", "a") as file:  # noqa: PTH123
        import json  # noqa: PLC0415

        file.write(json.dumps(words) + "\n")
    say(f"Submitted batch job 77 on cluster {cluster.partition('=')[2]}")
    return 0


def sinfo(state, words, mode):
    if _option(words, "-o") == "%P|%a|%l":
        say("batch*|up|1-00:00:00")
        say("short|up|1:00:00")
        return 0
    for node in state["nodes"]:
        for partition in node["partitions"]:
            if "GresUsed" in _option(words, "-O"):
                told = (node.get(key, "(null)") for key in ("gres", "gres_used", "features"))
                memory = (str(node.get(key, 0)) for key in ("memory", "memory_used"))
                fields = [node["name"], partition, node["cpus"], *memory, *told]
                say("|".join([*fields, node.get("state", "idle"), ""]))
                continue
            tier = state["tiers"].get(partition, 1)
            say(f"{node['name']}|{node['cpus']}|{partition}|{tier}")
    return 0


def sacct(state, words, mode):
    fields = [name.partition("%")[0] for name in _option(words, "-o").split(",")]
    times = os.environ["SLURM_TIME_FORMAT"]
    if "--noheader" not in words:
        say("|".join(fields))
    states = _option(words, "-s").split(",")
    for row in state["accounting"]:
        # jobs asked for by a final state are given where they ended (run on 22.05)
        if states == [""] or (row["State"].split()[0] in states and _ended(row, words)):
            say("|".join(_shown(name, row.get(name, ""), times) for name in fields))
    return 0


def _shown(name, value, times):
    is_time = name in ("Submit", "Eligible", "Start", "End") and str(value).isdecimal()
    return times.replace("%s", str(value)) if is_time else str(value)


def _ended(row, words):
    from datetime import datetime  # noqa: PLC0415 (the others do without, and start faster)

    first, last = (
        datetime.fromisoformat(_option(words, name)).timestamp() for name in ("-S", "-E")
    )
    # a single second counts as two (run on 22.05)
    return first <= int(row["End"]) <= max(last, first + 1)


SETTINGS = {
    "ClusterName": "trial",
    "SLURM_VERSION": "22.05.8",
    "PriorityType": "priority/multifactor",
    "PrioritySiteFactorPlugin": "(null)",
    "PriorityMaxAge": "1-00:00:00",
    "PriorityWeightAge": "1000",
    "PriorityWeightFairShare": "10000",
    "PriorityWeightTRES": "CPU=1000,Mem=500",
    "AccountingStorageEnforce": "associations,limits,qos",
    "SchedulerParameters": "bf_interval=20,bf_continue",
    "SchedulerType": "sched/backfill",
    "SelectType": "select/cons_tres",
}


def _show_config(state):
    say("Configuration data as of 2026-11-21T22:24:02")
    for name, value in {**SETTINGS, **state["settings"]}.items():
        say(f"{name:<23} = {value}")
    say("")
    for place, (host, is_up) in enumerate(state["controllers"]):
        role = "backup" if place else "primary"
        say(f"Slurmctld({role}) at {host} is {'UP' if is_up else 'DOWN'}")
    return 0


def sdiag(state, words, mode):
    load = state["load"]
    answered = int(time.time()) + load.get("ahead", 0)  # noqa: TID251 - slurmctld's own clock
    say(f"sdiag output at Sun Nov 22 03:00:00 2026 ({answered})")
    for name in ("Server thread count", "Agent queue size", "DBD Agent queue size"):
        say(f"{name}: {load.get(name, 0)}")
    for event in ("submitted", "started", "completed", "canceled", "failed"):
        say(f"Jobs {event}:  {load.get(event, 0)}")
    return 0


def scontrol(state, words, mode):
    if words[:2] == ["show", "config"]:
        return _show_config(state)
    if words == ["show", "federation"]:
        for line in state.get("federation", ()):
            say(line)
        return 0
    if words == ["--all", "--oneliner", "show", "partitions"]:
        for line in state.get("partition_lines", ()):
            say(line)
        return 0
    if words and words[0] == "-o":
        asked = {"assoc_mgr": show_assoc_mgr, "reservation": show_reservation}
        if words[2] == "licenses":
            return show_licenses(state)
        return asked[words[2]](state, words)
    if words and words[0] in ("create", "update", "delete"):
        return change_reservation(state, words, mode)
    status = 0
    for line in sys.stdin:
        say(f"scontrol: {line.rstrip()}")
        match line.replace("=", " ").split():
            case ["update", "jobid", number, "sitefactor", value]:
                status |= _update(state, int(number), int(value), mode)
            case _:
                raise SystemExit(f"the fake scontrol does not know: {line}")
    say("scontrol: ")
    state["scontrol_calls"] = state.get("scontrol_calls", 0) + 1
    return status and state["status_after_refusal"]


def _update(state, number, value, mode):
    jobs = [job for job in state["jobs"] if number in (job["array_id"], job["het_id"])]
    tasks = jobs[0]["tasks"] if jobs else ""
    words = "Access/permission denied" if mode == "deny" else jobs and jobs[0].get("refused")
    if words:  # as the real one refuses a record, and an array
        complain(f"{number}_{tasks}: {words}" if tasks else f"{words} for job {number}")
    elif not jobs:
        complain(f"Invalid job id specified for job {number}")
    elif all(job["state"] == "COMPLETED" for job in jobs):
        text = "Job has already finished"
        complain(f"{number}_{tasks}: {text}" if tasks else f"{text} for job {number}")
    else:
        for job in jobs:
            job["site"] = value
        return 0
    return 1


def sacctmgr(state, words, mode):
    if "assoc" in words:
        for row in state["associations"]:
            say("|".join(row))
        return 0
    if "modify" in words:
        import re  # noqa: PLC0415 - no other command needs it

        name, value = words[words.index("qos") + 1], words[-1]
        if mode == "deny":
            complain("sacctmgr: error: Your user doesn't have privilege to perform this action")
            say(" Error with request: Access/permission denied")
            return 1
        if name not in state["qos"]:
            say(" Nothing modified")
            return 1
        state["sacctmgr_writes"] = state.get("sacctmgr_writes", 0) + 1
        found = re.fullmatch(r"GrpTRES=cpu=(-?\d+)((?:,(?:mem|gres/gpu)=-?\d+)*)", value)
        number = int(found[1])
        state["qos"][name]["cpu"] = None if number < 0 else number
        if not state.get("slurmctld_misses_it"):
            state["qos"][name]["live"] = state["qos"][name]["cpu"]
        others = state["qos"][name].setdefault("tres", {})
        others |= dict(word.split("=") for word in found[2].split(",") if word)
        return 0
    if words[-1] == "format=Name":
        for name in state["qos"]:
            say(name)
        return 0
    name = words[words.index("where") + 1].partition("=")[2]
    for found, limits in state["qos"].items():
        if found == name:
            cpu = "" if limits["cpu"] is None else f"cpu={limits['cpu']}"
            tres = [f"{each}={n}" for each, n in limits.get("tres", {}).items() if int(n) >= 0]
            say(f"{found}|" + ",".join(filter(None, [cpu, *tres, limits["others"]])))
    return 0


def show_assoc_mgr(state, words):
    say("Current Association Manager state")
    asked = [word.partition("=")[2] for word in words if word.startswith("qos=")]
    found = [(name, each) for name, each in state["qos"].items() if name in asked]
    say("QOS Records" if found else "No QOS currently cached in Slurm.")
    for name, limits in found:
        cpu = "N" if limits["live"] is None else limits["live"]
        tres = limits.get("tres", {})
        shown = {each: "N" if int(tres.get(each, -1)) < 0 else tres[each] for each in state["tres"]}
        others = "".join(f",{each}={limit}(0)" for each, limit in shown.items())
        say(
            f"QOS={name}(2) UsageRaw=0.000000 GrpJobs=N(0) GrpTRES=cpu={cpu}(3){others},node=N(0) "
            "GrpTRESMins=cpu=N(0),mem=N(0) GrpTRESRunMins=cpu=N(0),mem=N(0) MaxWallPJ="
        )
    return 0


def show_licenses(state):
    for name, total in state["licenses"].items():
        say(f"LicenseName={name} Total={total} Used=0 Free={total} Reserved=0 Remote=no")
    return 0


def show_reservation(state, words):
    found = state["reservations"].get(words[-1])
    if found is None:
        complain(f"Reservation {words[-1]} not found")
        return 1
    say(
        f"ReservationName={words[-1]} Nodes=(null) NodeCnt={found['nodes']} Users=root "
        f"Licenses={found['licenses']} State=ACTIVE BurstBuffer=(null)"
    )
    return 0


def change_reservation(state, words, mode):
    given = dict(word.partition("=")[::2] for word in words[1:])
    name = given.get("reservation") or given["reservationname"]
    if mode == "deny":
        complain(f"{words[0]}_reservation reservation={name}: Invalid user id")
        return 1
    if words[0] != "create" and name not in state["reservations"]:
        complain(f"{words[0]}_reservation reservation={name}: Requested reservation is invalid")
        return 1
    if words[0] == "delete":
        if state["reservations"][name].get("used"):
            complain(f"delete_reservation reservationname={name}: Requested reservation is in use")
            return 1
        del state["reservations"][name]
        return 0
    state["reservations"][name] = {"nodes": 0, "licenses": "", **given}
    return 0


def _option(words, name):
    return words[words.index(name) + 1] if name in words else ""


COMMANDS = {
    "squeue": squeue,
    "sprio": sprio,
    "sshare": sshare,
    "sbatch": sbatch,
    "sinfo": sinfo,
    "sacct": sacct,
    "sacctmgr": sacctmgr,
    "scontrol": scontrol,
    "sdiag": sdiag,
}
