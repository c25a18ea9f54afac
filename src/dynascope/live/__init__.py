"""The live page: a local server, and a worker process that executes runs.

`server` answers requests, behind the checks of `guard`. `session` owns the worker and the log of events that pages
follow; `worker` is the other process. `views` prepares traces for drawing, `explorer` and `sweeps` read the store,
`forms` makes the form of an experiment.
"""
