"""Catapults: exact maps of quadratic models, and critical learning rates."""

from dynascope.theory.catapult import (
    critical_rates as critical_rates,
    errata as errata,
    general_quadratic as general_quadratic,
    largest_rate as largest_rate,
    quadratic_many as quadratic_many,
    quadratic_model as quadratic_model,
)
