"""Examples of the names of `dynascope.ledger`, one for each cell."""

from dynascope import ledger

row = next(row for row in ledger.statements() if row.place == "Figure 2b")

# %% Statement
row.printed  # the words of the document

# %% statements
[row.place for row in ledger.statements() if row.kind == "theorem"]

# %% documents
ledger.documents()

# %% verdict
ledger.verdict(row)  # computed from the claims on record

# %% judgments
[(claim.claim, claim.role, claim.verdict, claim.size) for claim in ledger.judgments(row)]

# %% Judgment
sorted({claim.claim for row in ledger.statements() for claim in ledger.judgments(row) if claim.is_divided})
