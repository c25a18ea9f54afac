"""Limits: where in a space of settings does a claim stop being true?

In the order in which a search goes through them: `ranges` and `claim_names` check what is asked, `question` holds it,
`search` says where to look next, `margin` and `points` read what was found there, `crossings`, `nearest` and `theory`
make the `answer`, `summary` and `figures` keep it, and `work` is the whole.
"""

from dynascope.lab.limit_search.work import Limits as Limits, carry_out as carry_out, limits as limits
