"""Examples of the names of `dynascope.lm` that need no language model, one for each cell."""

import numpy as np

from dynascope import lm

# %% rank_of_token
lm.rank_of_token(np.array([[0.1, 0.6, 0.3]]), 2)  # the second most likely

# %% ratio_gain
full = np.array([[0.2, 0.4], [0.3, 0.3], [0.1, 0.5]])
cut = np.array([[0.4, 0.2], [0.5, 0.1], [0.3, 0.3]])
lm.ratio_gain(full, cut)
