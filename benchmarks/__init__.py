"""Races against the tools one would pick instead: `make bench`, or `python -m benchmarks NAME...`.

Every contender of a race runs in one session, each on one thread, and is timed after it has compiled; compile times
are shown apart. Ratios are what counts: the seconds belong to the machine.
"""
