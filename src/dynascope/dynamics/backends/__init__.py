"""Backends, which take the steps of members: the process's own loop or one GPU kernel; `choice` selects one."""
