"""Forecasts of when pending jobs start: distributions with bands, and how good they have been.

`forecast` has the noun: quantiles of the wait that is left, a row a job. A source gives them:
`past_waits` by `sources.ask_sources` and then `sources.given_at`, at each moment anew. `pooled`
joins several into one spread, `calibrated` sets the bands by earlier outcomes, and `scores_of`
scores them.
"""
