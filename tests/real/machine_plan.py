"""A private cluster with nodes, partitions and limits of every kind that a machine may have."""

from __future__ import annotations

from tests.real.conftest import ACCOUNTS
from tests.real.private_cluster import ClusterPlan

#: Nodes without daemons, with everything that a node can have.
NODES = (
    "NodeName=DEFAULT RealMemory=8000 Weight=7",
    "NodeName=g[01-03] NodeHostname=nowhere NodeAddr=127.0.0.1 Port=[17001-17003] CPUs=8 Sockets=2 "
    "CoresPerSocket=2 ThreadsPerCore=2 CoreSpecCount=1 MemSpecLimit=500 Gres=gpu:a100:2 "
    "Features=big,ib",
    "NodeName=f1 NodeHostname=nowhere NodeAddr=127.0.0.1 State=FUTURE CPUs=3",
    "NodeSet=withgpu Feature=big",
    "PartitionName=gpu Nodes=withgpu MaxTime=2-0 OverSubscribe=EXCLUSIVE MaxNodes=2 "
    "DefMemPerNode=700 PriorityTier=3 TRESBillingWeights=CPU=1.0,Mem=0.25G,GRES/gpu=2.0",
)
PLAN = ClusterPlan(
    accounts=ACCOUNTS,
    options={
        "GresTypes": "gpu",
        "AccountingStorageTRES": "gres/gpu",
        "AccountingStorageEnforce": "associations,limits,qos",
        "SelectTypeParameters": "CR_Core_Memory",
        "Licenses": "matlab:10,ansys",
        "PriorityWeightTRES": "CPU=10,Mem=.03,GRES/gpu=300",
        "PriorityFavorSmall": "YES",
        "DefMemPerCPU": "100",
        "CompleteWait": "8",
    },
    lines=NODES,
    files={"gres.conf": "NodeName=g[01-03] Name=gpu Type=a100 Count=2\n"},
)
#: Arguments of sacctmgr after the start.
LIMITS = (
    ("add", "qos", "night", "Priority=7", "GrpTRES=cpu=6,gres/gpu=2", "MaxJobsPerUser=3"),
    ("modify", "qos", "night", "set", "MaxWall=1-00:00:00", "GrpTRESMins=cpu=600"),
    ("modify", "account", "physics", "set", "GrpTRES=node=2,mem=1G", "GrpJobs=5", "MaxJobs=2"),
    ("modify", "user", "alice", "set", "MaxJobs=1"),
)
