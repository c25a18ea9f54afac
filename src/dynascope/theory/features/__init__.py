"""Feature learning: properties of average gradient outer products that are known without training."""

from dynascope.theory.features import agop as agop
