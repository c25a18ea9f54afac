"""The lab: finds experiments, runs them, keeps what they measured, sweeps them and writes the report.

`experiment` and `claims` are what an experiment is made of; `registry` finds experiments without importing
them, `run` and `sweep` carry them out, `store` keeps the runs, `report` turns the store into a site. Only the
lab does I/O.
"""
