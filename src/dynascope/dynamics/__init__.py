"""Dynamics: how parameters move. One compiled loop runs descents, flows and maps, alone or as ensembles."""
