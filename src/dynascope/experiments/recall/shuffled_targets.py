"""The task of the control: noisy recall in which attention to earlier tokens does not help."""

from __future__ import annotations

from typing import Any

import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, PRNGKeyArray

from dynascope.tasks import NoisyRecall, RecallBatch, SampledTask


class ShuffledTargets(SampledTask):
    """Noisy recall; if `shuffled`, labels after triggers are other sequences' targets."""

    recall: NoisyRecall
    shuffled: Bool[Array, ""]

    def sample(self, key: PRNGKeyArray, count: int) -> RecallBatch:
        """`count` sequences."""
        batch = self.recall.sample(key, count)
        after = jnp.isin(batch.tokens, jnp.array(self.recall.triggers)) & (batch.labels != self.recall.noise)
        others = jnp.roll(batch.target, 1)
        return batch._replace(labels=jnp.where(self.shuffled & after, others[:, None], batch.labels))

    def loss(self, model: Any, batch: RecallBatch) -> Float[Array, ""]:
        """The loss of the task."""
        return self.recall.loss(model, batch)
