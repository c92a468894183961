"""What of the fake Slurm limits jobs: QOS, accounts, licences and reservations."""

import sys


def say(text):
    sys.stdout.write(text + "\n")


def complain(text):
    sys.stderr.write(text + "\n")


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
