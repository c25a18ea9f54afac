"""Theory: closed forms, ODEs, recursions and bounds, a folder for each system, with the names of what is measured."""

from dynascope.theory import (
    catapult as catapult,
    concept as concept,
    edge as edge,
    features as features,
    graphs as graphs,
    linearity as linearity,
    rank as rank,
    recall as recall,
)
from dynascope.theory.arguments import check_calls

check_calls(catapult, concept, edge, features, graphs, linearity, rank, recall)
