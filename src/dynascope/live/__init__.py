"""The live page: a local server, a worker process that carries runs out, and what the browser is sent of them.

`server` answers requests, behind the checks of `guard`. `session` has the worker and the log of events that pages
follow; `worker` is the other process. `views` turns traces into what is drawn, `explorer` and `sweeps` read what is
stored, `forms` makes the form of an experiment.
"""
