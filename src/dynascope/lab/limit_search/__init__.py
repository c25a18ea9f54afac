"""Limits: the settings at which a claim stops being true.

The parts of a search in order: `ranges` and `claim_names` check the request, `question` holds it, `search` chooses the
next points, `margin` and `points` read their claims, `crossings`, `nearest` and `theory` make the `answer`, `summary`
and `figures` write it, and `work` does all of it.
"""

from dynascope.lab.limit_search.work import Limits as Limits, carry_out as carry_out, limits as limits
