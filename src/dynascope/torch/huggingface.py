"""A watch beside the Trainer of Hugging Face transformers."""

from __future__ import annotations

from typing import Any

from transformers import Trainer, TrainerCallback

from dynascope import checks
from dynascope.probes.probe import Probes
from dynascope.torch.data import Data
from dynascope.torch.objective import Loss, Only
from dynascope.torch.watch import Watch


def watch_trainer(
    trainer: Trainer,
    data: Data,
    probes: Probes | None = None,
    *,
    loss: Loss = None,
    every: int = 100,
    only: Only = None,
    rows: int | None = None,
) -> Watch:
    """Record beside a Trainer, and log the scalars with its own: TensorBoard, Weights & Biases, the console.

    Args:
        trainer: The trainer, before `trainer.train()`.
        data: Examples on which the model is measured, a mapping of tensors as its `forward` takes them.
        probes: Quantities to record, by name; see `Watch`.
        loss: How the loss comes from the model and data. Default: `model(**data).loss`.
        every: Record at the start and after every this many steps.
        only: Which parameters are measured; see `Watch`.
        rows: Rows of the data that are evaluated at a time. Default: all.

    Returns:
        The watch, whose `trace` grows while the trainer runs.
    """
    checks.whole("every", every, at_least=1)
    watch = Watch(trainer.model, loss, data, probes, only=only, rows=rows)  # pyright: ignore[reportArgumentType]
    trainer.add_callback(_Recorder(trainer, watch, every))
    return watch


class _Recorder(TrainerCallback):
    """Records at the beginning and at the end of steps."""

    def __init__(self, trainer: Trainer, watch: Watch, every: int) -> None:
        self.trainer, self.watch, self.every = trainer, watch, every

    def on_train_begin(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        self.watch.use(kwargs.get("model"), kwargs.get("optimizer"))
        self._record(state.global_step)

    def on_step_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        if state.global_step % self.every == 0:
            self._record(state.global_step)

    def _record(self, step: int) -> None:
        if self.watch.is_due(step) and step > self.watch.last_step:
            found = self.watch.record(step)
            self.trainer.log({f"dynascope/{name}": value for name, value in found.items()})
