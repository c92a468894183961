"""`make bench`: seconds for 6,000 ticks of the 2005 paper's grid (N = 1000, R = 250, g = .20)."""

from __future__ import annotations

import time
from dataclasses import replace

from slurm_rl_plugin.brokers.agents.grid import GridSettings, draw_grid
from slurm_rl_plugin.brokers.agents.simulation import RULES, AgentRule, run_grid


def main() -> None:
    size = GridSettings()
    small = replace(size, ticks=10)
    begin = time.perf_counter()
    grid = draw_grid(size, 1)
    print(
        f"{size.ticks} ticks, {len(grid.tick):,} jobs, {time.perf_counter() - begin:.2f} s to draw"
    )
    for name in RULES:
        for at_completion in (False, True):
            rule = AgentRule(name=name, at_completion=at_completion)
            run_grid(small, draw_grid(small, 1), rule, 1)  # compiles
            begin, worked = time.perf_counter(), time.process_time()
            run_grid(size, grid, rule, 1)
            clock, processor = time.perf_counter() - begin, time.process_time() - worked
            heard = "at completion" if at_completion else "at once"
            print(
                f"  {name:24s} told {heard:14s} {clock:6.2f} s, {processor:5.2f} s of a processor"
            )


if __name__ == "__main__":
    main()
