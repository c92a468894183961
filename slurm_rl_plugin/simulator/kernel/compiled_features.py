"""Features and utilities compiled for the kernel: the head node's own lines, one source."""

from __future__ import annotations

from slurm_rl_plugin.features import reactive_grid, site
from slurm_rl_plugin.features.history import run_history, run_prediction
from slurm_rl_plugin.simulator.kernel.compilation import compiled_copy
from slurm_rl_plugin.utility import fairness as plain_fairness
from slurm_rl_plugin.utility import time_utility as plain_time_utility

choose = compiled_copy(plain_time_utility.choose)
time_utility = compiled_copy(plain_time_utility.time_utility, choose=choose)
time_utility_loss_rate = compiled_copy(plain_time_utility.time_utility_loss_rate, choose=choose)
share_deficit = compiled_copy(plain_fairness.share_deficit)
fairness = compiled_copy(plain_fairness.fairness, share_deficit=share_deficit)
queue_features = compiled_copy(site.queue_features)
reserve_features = compiled_copy(site.reserve_features)
static_job_features = compiled_copy(site.static_job_features)
dynamic_job_features = compiled_copy(
    site.dynamic_job_features,
    time_utility=time_utility,
    time_utility_loss_rate=time_utility_loss_rate,
)
log_wait = compiled_copy(reactive_grid.log_wait)
log_release = compiled_copy(reactive_grid.log_release)
log_work_hours = compiled_copy(reactive_grid.log_work_hours)
grid_features = compiled_copy(
    reactive_grid.grid_features, log_release=log_release, log_work_hours=log_work_hours
)
grid_features_2011 = compiled_copy(
    reactive_grid.grid_features_2011, log_release=log_release, log_work_hours=log_work_hours
)
fold_outlived = compiled_copy(run_history.fold_outlived)
fold_ended = compiled_copy(run_history.fold_ended)
fold_spent = compiled_copy(run_history.fold_spent)
speaks_for = compiled_copy(run_history.speaks_for)
fill_row_facts = compiled_copy(
    run_prediction.fill_row_facts, log_odds=compiled_copy(run_prediction.log_odds)
)
fill_known_facts = compiled_copy(run_prediction.fill_known_facts, fill_row_facts=fill_row_facts)
history_features = compiled_copy(run_prediction.history_features)
at_its_word = compiled_copy(run_prediction.at_its_word)
alike_features = compiled_copy(run_prediction.alike_features)
