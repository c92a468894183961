"""Features and utilities compiled for the kernel: the head node's own lines, one source."""

from __future__ import annotations

from slurm_rl_plugin.features import reactive_grid, site
from slurm_rl_plugin.features.history import run_history
from slurm_rl_plugin.simulator.kernel.compilation import compiled_copy
from slurm_rl_plugin.utility import fairness as plain_fairness
from slurm_rl_plugin.utility import time_utility as plain_time_utility

choose = compiled_copy(plain_time_utility.choose)
paper_row = compiled_copy(plain_time_utility.paper_row, choose=choose)
time_utility = compiled_copy(plain_time_utility.time_utility)
time_utility_loss_rate = compiled_copy(plain_time_utility.time_utility_loss_rate)
share_deficit = compiled_copy(plain_fairness.share_deficit)
fairness = compiled_copy(plain_fairness.fairness, share_deficit=share_deficit)
log_seconds = compiled_copy(site.log_seconds)
log_work_hours = compiled_copy(site.log_work_hours)
queue_features = compiled_copy(
    site.queue_features, log_seconds=log_seconds, log_work_hours=log_work_hours
)
longest_wait = compiled_copy(site.longest_wait)
share_doublings = compiled_copy(site.share_doublings)
late_after = compiled_copy(site.late_after)
lateness = compiled_copy(site.lateness)
dynamic_job_features = compiled_copy(site.dynamic_job_features)
grid_features = compiled_copy(
    reactive_grid.grid_features, log_seconds=log_seconds, log_work_hours=log_work_hours
)
grid_features_2011 = compiled_copy(
    reactive_grid.grid_features_2011, log_seconds=log_seconds, log_work_hours=log_work_hours
)
fold_outlived = compiled_copy(run_history.fold_outlived)
fold_ended = compiled_copy(run_history.fold_ended, fold_outlived=fold_outlived)
fold_spent = compiled_copy(run_history.fold_spent)
fold_last = compiled_copy(run_history.fold_last)
place_of = compiled_copy(run_history.place_of)
speaks_for = compiled_copy(run_history.speaks_for)
weight_at_site = compiled_copy(run_history.weight_at_site)
weight_among_limits = compiled_copy(run_history.weight_among_limits)
drawn = compiled_copy(run_history.drawn)
fill_hazards = compiled_copy(run_history.fill_hazards, drawn=drawn)
believed_rate = compiled_copy(run_history.believed_rate)
expected_run = compiled_copy(run_history.expected_run)
history_features = compiled_copy(run_history.history_features)
alike_features = compiled_copy(run_history.alike_features)
fill_shares = compiled_copy(run_history.fill_shares)
run_time_at = compiled_copy(run_history.run_time_at)
learn_shares = compiled_copy(run_history.learn_shares)
