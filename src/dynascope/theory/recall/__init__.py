"""Association against in-context reasoning: noisy recall by a one-layer model, step by step, and a linear memory."""

from dynascope.theory.recall import (
    bigrams as bigrams,
    chain as chain,
    contexts as contexts,
    counts as counts,
    errata as errata,
    first_step as first_step,
    gradient_lemma as gradient_lemma,
    hand_built as hand_built,
    linear_memory as linear_memory,
    long_contexts as long_contexts,
    margins as margins,
    noise_logit as noise_logit,
    phases as phases,
)
