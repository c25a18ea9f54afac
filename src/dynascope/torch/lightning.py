"""A watch beside the Trainer of Lightning."""

from __future__ import annotations

from typing import Any

import lightning.pytorch as lightning
import torch

from dynascope import checks
from dynascope.probes.probe import Probes
from dynascope.torch.data import Data
from dynascope.torch.objective import Loss, Only
from dynascope.torch.watch import Watch


class WatchCallback(lightning.Callback):
    """Record beside a Lightning Trainer, and log the scalars with its loggers.

    The watch is `callback.watch`, once the training has begun.

    Args:
        loss: How the loss comes from the module and data; see `Watch`.
        data: The data on which it is measured; see `Watch`.
        probes: Quantities to record, by name; see `Watch`.
        every: Record at the start and after every this many steps.
        only: Which parameters are measured; see `Watch`.
        rows: Rows of the data that are evaluated at a time. Default: all.
    """

    def __init__(
        self,
        loss: Loss,
        data: Data,
        probes: Probes | None = None,
        *,
        every: int = 100,
        only: Only = None,
        rows: int | None = None,
    ) -> None:
        super().__init__()
        self._every = checks.whole("every", every, at_least=1)
        self._given: tuple[Any, ...] = (loss, data, probes)
        self._options: dict[str, Any] = {"only": only, "rows": rows}
        self.watch: Watch | None = None

    def on_train_start(self, trainer: lightning.Trainer, pl_module: torch.nn.Module) -> None:
        """Record the model before the first step."""
        if self.watch is None:
            self.watch = Watch(pl_module, *self._given, **self._options)
        optimizers = trainer.optimizers
        self.watch.use(pl_module, optimizers[0] if optimizers else None)
        self._record(trainer)

    def on_train_batch_end(
        self, trainer: lightning.Trainer, pl_module: Any, outputs: Any, batch: Any, batch_idx: int
    ) -> None:
        """Record after the given number of steps of the optimizer."""
        if trainer.global_step % self._every == 0:
            self._record(trainer)

    def _record(self, trainer: lightning.Trainer) -> None:
        step, watch = trainer.global_step, self.watch
        if watch is None or not trainer.is_global_zero or step <= watch.last_step or not watch.is_due(step):
            return
        found = {f"dynascope/{name}": value for name, value in watch.record(step).items()}
        for logger in trainer.loggers:
            logger.log_metrics(found, step)
