"""Attacker: a user who submits jobs, where slurmctld runs our job_submit.lua.

He names a partition of interactive jobs beside another, or has a short job ranked and then makes
it long.
"""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.real.conftest import ACCOUNTS, running_slurm, skip_without_daemons
from tests.real.private_cluster import ClusterPlan, PrivateSlurm
from tests.real.site_factors import site_factors

SCRIPT = Path(__file__).parents[3] / "deploy" / "slurm" / "job_submit.lua"
LUAS = [name for name in ("lua5.1", "lua5.3", "lua5.4", "lua") if shutil.which(name)]
needs_lua = pytest.mark.skipif(not LUAS, reason="no Lua here: apt-get install lua5.3 lua5.4")
HEAD = "slurm-rl-class-defaults 1\nfrom 0\nuntil 99999999999\nfactor 4321\n"
#: slurmctld's side: its module, and a value of each field that an update leaves alone.
SLURMCTLD = """
slurm = {{SUCCESS = 0, log_info = function(...) print("fault", string.format(...)) end,
  jobs = {{{jobs}}}}}
local text = io.open("{script}"):read("*a")
  :gsub('TABLE = "[^"]*"', 'TABLE = "{table}"')
assert((loadstring or load)(text))()
UNSET = {{time_limit = 4294967294, min_cpus = 4294967294, min_nodes = 4294967294,
  num_tasks = 4294967294, cpus_per_task = 65534, pn_min_cpus = 65534, site_factor = 4294967294}}
RECORD = {{time_limit = 1, min_cpus = 1, min_nodes = 1, pn_min_cpus = 1,
  min_mem_per_node = 2000, partition = "batch", qos = "normal", site_factor = 900,
  job_state = 0, array_job_id = 0, het_job_id = 0,
  job_id = 7, user_id = 1001}}
local function with(base, changes)
  local made = {{}}
  for key, value in pairs(base) do made[key] = value end
  for key, value in pairs(changes) do made[key] = value end
  return made
end
"""


def run_lua(lua: str, folder: Path, statements: str, rules: str = "", jobs: str = "") -> list[str]:
    """What the statements print, run where slurmctld would have loaded the script."""
    table = folder / "table"
    table.write_text(f"{HEAD}{rules}end\n")
    head = SLURMCTLD.format(script=SCRIPT, table=table, jobs=jobs)
    done = subprocess.run(
        [lua, "-"], input=head + statements, capture_output=True, text=True, timeout=20, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.split()


#: A class by its partition; and all but batch work by what is no script.
QUICK = "rule interactive partition=debug,short\n"
NOT_BATCH = "rule batch partition=batch\nrule interactive no_batch_script=yes\n"


@needs_lua
@pytest.mark.parametrize("lua", LUAS)
@pytest.mark.parametrize(
    ("rules", "named", "interactive"),
    [
        (QUICK, "debug", True),
        (QUICK, "debug,batch", False),
        (QUICK, "batch,debug", False),
        (QUICK, "debug,short", True),
        (QUICK, ",,debug,", True),
        (QUICK, ",", False),
        (QUICK, "", False),
        (NOT_BATCH, "debug", True),
        (NOT_BATCH, "batch", False),
        (NOT_BATCH, "debug,batch", False),
        (NOT_BATCH, "d," * 500 + "d", False),  # not looked through
    ],
)
def test_a_job_is_interactive_in_every_partition_that_it_names(
    tmp_path: Path, lua: str, rules: str, named: str, interactive: bool
) -> None:
    script = 'script = "x", ' if rules == QUICK else ""
    job = f'job = {{{script}partition = "{named}"}}; slurm_job_submit(job, {{}}, 1001)'
    said = run_lua(lua, tmp_path, f"{job}; print(job.site_factor or 'none')", rules)
    assert said == (["4321"] if interactive else ["none"])


@needs_lua
@pytest.mark.parametrize("lua", LUAS)
@pytest.mark.parametrize(
    ("update", "loses"),
    [
        ("", False),
        ("time_limit = 10080", True),
        ("time_limit = 65534", True),
        ("time_limit = 4294967295", True),
        ("time_limit = 1", False),
        ("min_cpus = 64", True),
        ("min_nodes = 2", True),
        ("num_tasks = 8", True),
        ("cpus_per_task = 8", True),
        ("pn_min_cpus = 8", True),
        ('tres_per_node = "gres:gpu:4"', True),
        ("min_mem_per_node = 4000", True),
        ("min_mem_per_node = 1000", False),
        ("min_mem_per_node = 0", True),  # all that nodes have
        ("min_mem_per_cpu = 1000", True),
        ('partition = "long"', True),
        ('partition = "batch"', False),
        ('qos = "high"', True),
        ('name = "new", comment = "x"', False),
        ("time_limit = {}", False),  # whatever is wrong: as it was before, and never an error
    ],
)
def test_who_makes_a_ranked_job_larger_loses_its_place(
    tmp_path: Path, lua: str, update: str, loses: bool
) -> None:
    code = f"""
    local update = with(UNSET, {{{update}}})
    assert(slurm_job_modify(update, with(RECORD, {{}}), {{}}, 1001) == 0)
    print(update.site_factor)
    """
    said = [word for word in run_lua(lua, tmp_path, code) if word.isdecimal()]
    assert said[-1] == ("0" if loses else "4294967294")


@needs_lua
@pytest.mark.parametrize("lua", LUAS)
@pytest.mark.parametrize(
    ("record", "uid", "jobs"),
    [
        ("site_factor = -5", 1001, ""),  # 0 would lift it
        ("site_factor = 0", 1001, ""),
        ("job_state = 1", 1001, ""),
        ("", 0, ""),
        ("array_job_id = 7", 1001, '["8"] = {array_job_id = 7, job_id = 8}'),
        ("het_job_id = 7", 1001, ""),
    ],
    ids=["below-zero", "none", "running", "root", "split-array", "heterogeneous"],
)
def test_nothing_else_is_touched(
    tmp_path: Path, lua: str, record: str, uid: int, jobs: str
) -> None:
    code = f"""
    local update = with(UNSET, {{time_limit = 10080}})
    slurm_job_modify(update, with(RECORD, {{{record}}}), {{}}, {uid})
    print(update.site_factor)
    """
    assert run_lua(lua, tmp_path, code, jobs=jobs) == ["4294967294"]


@pytest.fixture(scope="module")
def cluster() -> Iterator[PrivateSlurm]:
    """Real Slurm with the script as it is shipped; nothing can start."""
    skip_without_daemons(None)
    plan = ClusterPlan(
        nodes=1,
        processors_per_node=4,
        accounts=ACCOUNTS,
        lines=("JobSubmitPlugins=lua",),
        files={"job_submit.lua": SCRIPT.read_text()},
    )
    with running_slurm(plan) as cluster:
        for partition in ("batch", "short"):
            cluster.run("scontrol", "update", f"partition={partition}", "state=down")
        yield cluster


def ranked(cluster: PrivateSlurm, *options: str) -> int:
    """A short waiting job with a place of ours."""
    job = cluster.submit(*options, user="alice", account="physics", minutes=1)
    cluster.wait_until(lambda: job in site_factors(cluster), 10, f"job {job} in sprio")
    cluster.run("scontrol", "update", f"jobid={job}", "sitefactor=5000")
    assert site_factors(cluster)[job] == 5000
    return job


def as_alice(cluster: PrivateSlurm, job: int | str, *changes: str) -> None:
    """What the owner does; it is never refused."""
    cluster.run("scontrol", "update", f"jobid={job}", *changes, user="alice")


@pytest.mark.real
@pytest.mark.promise
@pytest.mark.parametrize(
    "change",
    ["timelimit=30", "numcpus=4", "partition=short", "numtasks=3", "minmemorynode=900"],
    ids=str,
)
def test_on_real_slurm_a_changed_job_loses_its_place_at_once(
    cluster: PrivateSlurm, change: str
) -> None:
    job = ranked(cluster)
    as_alice(cluster, job, change)
    assert site_factors(cluster)[job] == 0


@pytest.mark.real
@pytest.mark.promise
def test_on_real_slurm_other_changes_and_the_daemons_own_writes_stand(
    cluster: PrivateSlurm,
) -> None:
    job = ranked(cluster)
    as_alice(cluster, job, "name=new", "comment=x")
    assert site_factors(cluster)[job] == 5000
    cluster.run("scontrol", "update", f"jobid={job}", "sitefactor=77", "timelimit=30")
    assert site_factors(cluster)[job] == 77


@pytest.mark.real
@pytest.mark.promise
def test_on_real_slurm_no_update_of_an_array_is_refused(cluster: PrivateSlurm) -> None:
    whole = ranked(cluster, "--array=1-3")
    as_alice(cluster, whole, "timelimit=30")
    assert site_factors(cluster)[whole] == 0
    split = ranked(cluster, "--array=1-3")
    as_alice(cluster, f"{split}_2", "nice=1")  # now in two records
    as_alice(cluster, split, "timelimit=30")
    shown = cluster.run("squeue", "-h", "-r", "-j", str(split), "-o", "%l").stdout.split()
    assert shown == ["30:00"] * 3
