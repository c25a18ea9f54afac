"""The statements of the source documents, one by one, and the claims that judge them."""

from dynascope.ledger.statements import Statement, documents, statements
from dynascope.ledger.verdicts import Judgment, judgments, verdict

__all__ = ["Judgment", "Statement", "documents", "judgments", "statements", "verdict"]
