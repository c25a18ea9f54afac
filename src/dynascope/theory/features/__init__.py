"""Feature learning: what is known of average gradient outer products and of the width without training."""

from dynascope.theory.features import agop as agop, parameterizations as parameterizations
