"""Published experiments run again: claims with the published and the measured figure.

A study is a folder and a line in `registry`. import-linter lets studies use only these parts of the
package:

* `accounting`: `port`, `swf.reader`, `log_format` and `log_file`, to read a published log;
* `simulator`: `workloads`, `schedules`, `sites`, rules, usage and histories of `scoring`,
  `kernel`, also for code of their own that is compiled;
* `learning`: the trainers with their settings (`algorithms`, `sarsa`, `fitted_q`, `policy_search`,
  `site_utility`, `heldout_training`), their loads (`training_load`), `onnx_file`,
  `side_by_side`, the digests of `checkpoint`, and of `evaluation` `paired` and `heldout`;
* `forecasts`: forecasts from past waits, their calibration and scores;
* `what_if`: `switchback`, the costs of two orders that take turns;
* `policies`: networks and the publication of a site's utility, but no rule of the hook;
* `features`: `estimates`, the schema `reactive_grid`, quantiles of `history.run_history`;
* `brokers`: the simulated `market` and `agents`;
* `machine_files`: a machine as its files describe it;
* `utility`, `domain`, `errors`, `units` and `whole_file`.
"""
