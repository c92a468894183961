"""What is said of sections, and where the configuration lies."""

from __future__ import annotations

from pathlib import Path

DEFAULT_PATH = Path("/etc/slurm-rl/slurm-rl.toml")

#: What is to be said of a whole section, in Markdown.
SECTION_NOTES = {
    "goals": "They act without training, on models whose score is linear as the shipped one's is: "
    "[order](order.md) tells what a step of each does.",
    "reward": "The weights act by training: `slurm-rl train --config` maximises them and records "
    "them in the model. `slurm-rl check` fails, and the daemon logs a warning, where the model was "
    "trained for others. The first three sum to 1; the defaults are those of the default model "
    "([objective](definitions.md#objective-of-training)).",
    "guard_rails": "Held jobs, jobs with a priority set by hand and jobs that cannot start yet are "
    "never touched either.",
    "guard": "A group is late where its jobs that started in the last fortnight, 100 at least, "
    "waited for more than 1.2 times its target, given here or measured by an experiment: "
    "[who guards the groups](order.md#who-guards-the-groups).",
    "reserve": "Processors kept free of batch jobs, so that interactive ones start at once; off by "
    "default. A model may say how many ([reserve](reserve.md)).",
    "metrics": "What is served: [metrics](metrics.md).",
    "forecast": "When jobs start: the service `slurm-rl forecast` reads them when it starts, the "
    "daemon `queue_file` alone: [when jobs start](when-jobs-start.md).",
    "offer": "Of the offer service, which reads them when it starts: [brokers](brokers.md).",
    "route": "Of `slurm-rl route`, which users run: [brokers](brokers.md#for-users).",
}
#: Sections with keys of the site's own choice.
SHARES, JOB_CLASS, UTILITY = "shares", "job_class", "utility"
