"""What `sprio` shows of our factors."""

from __future__ import annotations

from tests.real.private_cluster import PrivateSlurm


def site_factors(cluster: PrivateSlurm) -> dict[int, int]:
    """Job id -> SITE column of sprio, for every pending job that it lists."""
    lines = cluster.run("sprio", "-h", "-o", "%i %S").stdout.splitlines()
    return {int(job): int(float(factor)) for job, factor in map(str.split, lines)}
