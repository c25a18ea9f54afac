"""A figure laid out again: its panels in one column for a narrow screen, or one panel alone for a card.

Both change the given figure. All lengths are in inches.
"""

from dynascope.lab.report.layout.arrange import CARD, NARROW, alone, stack
from dynascope.lab.report.layout.panels import Panel, find_panels

__all__ = ["CARD", "NARROW", "Panel", "alone", "find_panels", "stack"]
