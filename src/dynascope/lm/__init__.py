"""Pretrained language models: next-token probabilities, and the effect of truncating a matrix of one layer."""

from dynascope.lm.extra import missing_extra as missing_extra
from dynascope.lm.language_model import LanguageModel as LanguageModel
from dynascope.lm.loading import load_lm as load_lm, missing_model as missing_model
from dynascope.lm.search import (
    best_truncation as best_truncation,
    rank_of_token as rank_of_token,
    ratio_gain as ratio_gain,
    truncation_table as truncation_table,
)
