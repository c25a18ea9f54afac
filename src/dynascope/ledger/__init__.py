"""What the source documents assert, statement by statement, and the claims that judge it."""

from dynascope.ledger.statements import Statement, documents, statements

__all__ = ["Statement", "documents", "statements"]
