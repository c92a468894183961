"""Published experiments run again: each gives claims with the published and the measured figure.

A study is a folder with a module `study`, and a line in `registry`. What studies may use of the
rest of the package, and no more than that (import-linter keeps it so):

* `accounting`: `port`, `swf.reader`, `log_format` and `log_file`, to read a published log;
* `simulator`: `workloads`, `schedules`, `sites`, rules, usage and histories of `scoring`,
  `kernel`, also for code of their own that is compiled;
* `learning`: the trainers with their settings (`algorithms`, `sarsa`, `fitted_q`, `policy_search`,
  `site_utility`, `heldout_training`), their loads (`training_load`), `export`,
  `side_by_side`, and of `evaluation` `paired` and `heldout`;
* `forecasts`: what is learned from past waits, its calibration and scores;
* `what_if`: `switchback`, what two orders that hold the queue in turns are found to cost;
* `policies`: networks and what publishes a site's utility, but no rule of the hook;
* `features`: `estimates`, the schema `reactive_grid`, quantiles of `history.run_prediction`;
* `brokers`: `port`, the simulated `market` and `agents`, two brokers of `registry`;
* `machine_files`: a machine as its files describe it;
* `utility`, `domain`, `errors`, `units` and `whole_file`.
"""
