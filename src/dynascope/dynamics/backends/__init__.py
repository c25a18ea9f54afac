"""How members take their steps: by the process's own loop, or as one GPU kernel; chosen in `choice`."""
