"""Feature learning: what is known of average gradient outer products without training."""

from dynascope.theory.features import agop as agop
