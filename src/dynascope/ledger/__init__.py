"""What the source documents assert, statement by statement, and the claims that judge it."""

from dynascope.ledger.statements import Statement, documents, statements
from dynascope.ledger.verdicts import Judgment, judgments, verdict

__all__ = ["Judgment", "Statement", "documents", "judgments", "statements", "verdict"]
