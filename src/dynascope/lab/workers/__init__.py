"""Workers, which execute the runs of a sweep, of an audit or of several experiments.

`executors` chooses: this process, a `pool` of processes on this machine, or a `cluster` of dask's, which `deployment`
starts or finds. Workers on one machine share its `devices`. A call goes to another process and comes back as bytes
(`calls`), with the files of its run if the worker does not see the store (`parcels`).
"""
