"""An administrator's case: an account with few shares floods a cluster.

Draws a site of 320 CPUs and twelve accounts, and its log: an account with 5 % of the shares
requests 0.68 of the machine, the other eleven request 0.58 of their shares. `what-if` and `evaluate
--config` then predict waits and service of each account at several values of `influence_hours`;
both must agree to the digit.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from slurm_rl_plugin.units import DAY, HOUR, MINUTE
from tests.bench.report import write_document

#: Shares of the accounts, and the flooding account.
SHARES = {
    "physics": 30,
    "chem": 20,
    "bio": 15,
    "math": 5,
    "astro": 5,
    "geo": 5,
    "mech": 5,
    "civil": 5,
    "elec": 3,
    "med": 3,
    "pharm": 2,
    "guest": 2,
}
FLOODS = "astro"
#: Part of the machine that it requests, and part of their shares that the others request.
FLOOD, OTHERS = 0.68, 0.58
INFLUENCES = (336.0, 72.0, 24.0, 0.0)
_NODES, _CPUS = 40, 8
#: Time limits in minutes, run times in seconds, and CPUs, drawn with equal probability.
_LIMITS, _RUNS = (5, 15, 60, 240, 600), (120, 480, 2400, 9000, 24000)
_WIDTHS = (1, 2, 4, 4, 8)
_SITE = ("--cluster", ".", "--account-of", "accounts.csv")
_CONF = """ClusterName=flooded
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
AccountingStorageEnforce=limits
PriorityType=priority/multifactor
PriorityWeightFairshare=10000
PriorityWeightAge=1000
PriorityWeightJobSize=1000
PriorityMaxAge=7-0
PriorityDecayHalfLife=7-0
NodeName=n[1-{nodes}] CPUs={cpus} RealMemory=64000
PartitionName=batch Nodes=ALL Default=YES MaxTime=1-00:00:00
"""


def write_site(folder: Path, *, days: float = 28.0, seed: int = 5) -> None:
    """Writes `slurm.conf`, `sacctmgr.script`, `log.swf`, and users' accounts in `accounts.csv`."""
    rng = np.random.default_rng(seed)
    names = list(SHARES)
    (folder / "slurm.conf").write_text(_CONF.format(nodes=_NODES, cpus=_CPUS))
    script = [f"add account {name} Fairshare={share}" for name, share in SHARES.items()]
    script += [f"add user {name}{each} Account={name}" for name in names for each in (1, 2)]
    (folder / "sacctmgr.script").write_text("\n".join(script) + "\n")
    jobs: list[tuple[float, int, int, int]] = []
    whole, work = float(sum(SHARES.values())), float(np.mean(_RUNS) * np.mean(_WIDTHS))
    for place, (name, share) in enumerate(SHARES.items()):
        part = FLOOD if name == FLOODS else OTHERS * share / whole
        count = rng.poisson(part * _NODES * _CPUS * days * DAY / work)
        for at in rng.uniform(0.0, days * DAY, count):
            kind, width = int(rng.integers(len(_RUNS))), int(rng.choice(_WIDTHS))
            jobs.append((float(at), 2 * place + int(rng.integers(2)) + 1, kind, width))
    lines = [f"; MaxProcs: {_NODES * _CPUS}", f"; MaxNodes: {_NODES}"]
    for number, (at, user, kind, width) in enumerate(sorted(jobs), start=1):
        run, limit = _RUNS[kind], _LIMITS[kind] * int(MINUTE)
        fields = [number, int(at), -1, run, width, -1, -1, width, limit, -1, 1, user, user]
        lines.append(" ".join(map(str, [*fields, -1, 1, 1, -1, -1])))
    (folder / "drawn.swf").write_text("\n".join(lines) + "\n")
    users = [f"{2 * place + each},{name}" for place, name in enumerate(names) for each in (1, 2)]
    (folder / "accounts.csv").write_text("user,account\n" + "\n".join(users) + "\n")
    # the log has the starts of the site's own order
    own = ("--policy", "multifactor", "--estimates", "requested", "--export", "own", "--json")
    answer(folder, "evaluate", "drawn.swf", *_SITE, *own)
    (folder / "own" / "multifactor.swf").rename(folder / "log.swf")


@dataclass(frozen=True, slots=True, kw_only=True)
class OfAccount:
    """Mean wait of an account in seconds, and its service over its entitlement."""

    mean_wait: float
    ratio: float


def asked_both(
    folder: Path, influence: float
) -> tuple[dict[str, OfAccount], dict[str, OfAccount], dict[str, OfAccount]]:
    """Accounts under the site's order, under ours by `what-if`, and under ours by `evaluate`."""
    config = folder / f"influence-{influence:g}.toml"
    config.write_text(f"[hook]\ninfluence_hours = {influence:g}\n")
    common = (*_SITE, "--config", config.name, "--json")
    found = answer(folder, "what-if", "log.swf", *common, "--change", "hook default")
    (variant,) = found["variants"].values()
    orders = ("--policy", "multifactor", "--policy", "default")
    policies = answer(folder, "evaluate", "log.swf", *common, *orders)["policies"]
    now, ours = (_of_what_if(variant, side) for side in (0, 1))
    beside = {name: _of_evaluate(policies[name]) for name in ("multifactor", "default")}
    if beside["multifactor"] != now:
        raise ValueError(f"{influence:g} h: the commands disagree on the site's order")
    return now, ours, beside["default"]


def answer(folder: Path, *words: str) -> dict[str, Any]:
    """Runs slurm-rl in a folder; returns its JSON."""
    command = [str(Path(sys.executable).with_name("slurm-rl")), *words]
    done = subprocess.run(command, cwd=folder, check=True, capture_output=True, text=True)
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def _of_what_if(variant: Mapping[str, Any], side: int) -> dict[str, OfAccount]:
    waits, services = variant["groups"]["account"], variant["service"]["accounts"]
    when = ("before", "after")[side]
    return {
        name: OfAccount(
            mean_wait=waits[name]["figures"]["mean_wait"][when],
            ratio=services[name]["ratio"][side],
        )
        for name in SHARES
        if name in waits
    }


def _of_evaluate(policy: Mapping[str, Any]) -> dict[str, OfAccount]:
    return {
        name: OfAccount(mean_wait=each["mean_wait"], ratio=each["ratio"])
        for name, each in policy["accounts"].items()
        if each["jobs"]
    }


def main(arguments: Sequence[str] | None = None) -> int:
    """Draws, predicts, prints and writes; 1 if the commands disagree."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--days", type=float, default=28.0)
    parser.add_argument("--seed", type=int, default=5)
    parser.add_argument("--output", type=Path, default=Path("bench-output"))
    chosen = parser.parse_args(arguments)
    chosen.output.mkdir(parents=True, exist_ok=True)
    write_site(chosen.output, days=chosen.days, seed=chosen.seed)
    columns: dict[str, dict[str, OfAccount]] = {}
    agree = True
    for influence in INFLUENCES:
        now, ours, beside = asked_both(chosen.output, influence)
        columns["now"], columns[f"{influence:g} h"] = now, ours
        agree = agree and ours == beside
    print("mean wait in hours, and service over entitlement, by influence_hours")
    for name, share in SHARES.items():
        cells = [
            f"{each[name].mean_wait / HOUR:7.2f} {each[name].ratio:5.2f}"
            for each in columns.values()
        ]
        print(f"{name:8}{share:3} %", *cells)
    print("        ", *(f"{column:>13}" for column in columns))
    print("what-if and evaluate agree to the digit" if agree else "THE COMMANDS DISAGREE")
    found = {
        column: {name: [each.mean_wait, each.ratio] for name, each in accounts.items()}
        for column, accounts in columns.items()
    }
    write_document(chosen.output / "flooded-site.json", found)
    return 0 if agree else 1


if __name__ == "__main__":
    sys.exit(main())
