"""Forecasts of when pending jobs start: distributions with bands, and how good they have been.

`forecast` has the noun: quantiles of the wait that is left, a row a job. A source gives them:
`past_waits` by `sources.ask_sources` and then `sources.given_at`, at each moment anew. `pooled`
makes one spread of several, `calibrated` sets the bands by what earlier ones came to, and
`scores_of` says what they were worth.
"""
