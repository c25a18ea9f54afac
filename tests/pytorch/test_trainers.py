"""Beside the trainers of other libraries: the same training, and scalars where these log their own."""

from __future__ import annotations

import csv
import warnings

import numpy as np
import pytest
import torch

import dynascope as ds


def tiny_gpt2():
    transformers = pytest.importorskip("transformers", reason="the optional extra `lm` is not installed")
    config = transformers.GPT2Config(
        n_embd=16, n_layer=2, n_head=2, vocab_size=20, n_positions=16, bos_token_id=None, eos_token_id=None
    )
    return transformers.GPT2LMHeadModel(config)


@pytest.mark.slow
class TestHuggingFace:
    @staticmethod
    def train(folder, *, watched):
        transformers = pytest.importorskip("transformers", reason="the optional extra `lm` is not installed")
        pytest.importorskip("accelerate", reason="the optional extra `lm` is not installed")
        from dynascope.torch.huggingface import watch_trainer

        torch.manual_seed(0)
        model = tiny_gpt2()
        ids = torch.randint(20, (32, 8))
        rows = [{"input_ids": row, "labels": row} for row in ids]
        arguments = transformers.TrainingArguments(
            str(folder), max_steps=6, per_device_train_batch_size=4, logging_steps=2, save_steps=3, report_to=[],
            use_cpu=True, disable_tqdm=True, seed=3,
        )  # fmt: skip
        trainer = transformers.Trainer(model, arguments, train_dataset=rows)
        watch = None
        if watched:
            probes = {
                "loss": ds.torch.loss(),
                "sharpness": ds.torch.sharpness(max_products=30),
                "adam": ds.torch.sharpness(preconditioned=True, max_products=30, every=[4]),
                "rate": ds.torch.learning_rate(),
                "attention": ds.torch.attention_entropy(),
            }
            data = {"input_ids": ids[:8], "labels": ids[:8]}
            watch = watch_trainer(trainer, data, probes, every=2)
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", category=UserWarning)
            warnings.filterwarnings("ignore", category=FutureWarning)
            trainer.train()
        return trainer, watch

    def test_it_logs_through_the_trainer_and_changes_nothing(self, tmp_path):
        alone, _ = self.train(tmp_path / "alone", watched=False)
        beside, watch = self.train(tmp_path / "beside", watched=True)
        for name, value in alone.model.state_dict().items():
            assert torch.equal(value, beside.model.state_dict()[name]), name
        assert watch.trace.attrs.get("failed") is None
        assert watch.trace.step.values.tolist() == [0, 2, 4, 6]
        assert watch.trace.adam.values[0] > 0
        history = [entry for entry in beside.state.log_history if "dynascope/sharpness" in entry]
        logged = {entry["step"]: entry["dynascope/sharpness"] for entry in history}
        np.testing.assert_allclose(list(logged.values()), watch.trace.sharpness)
        assert list(logged) == [0, 2, 4, 6]

    def test_its_checkpoints_are_replayed(self, tmp_path):
        trainer, _ = self.train(tmp_path, watched=False)
        ids = torch.stack([row["input_ids"] for row in trainer.train_dataset])
        data = {"input_ids": ids, "labels": ids}
        trace = ds.torch.replay(tiny_gpt2(), tmp_path, None, data)
        assert trace.step.values.tolist() == [3, 6]
        with torch.no_grad():
            expected = trainer.model.eval()(**data).loss
        assert float(trace.loss[-1]) == pytest.approx(float(expected), rel=1e-5)


@pytest.mark.slow
class TestLightning:
    @staticmethod
    def train(folder, *, watched):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            lightning = pytest.importorskip("lightning.pytorch", reason="the package lightning is not installed")
            from lightning.pytorch.loggers import CSVLogger

            from dynascope.torch.lightning import WatchCallback

        class Module(lightning.LightningModule):
            def __init__(self):
                super().__init__()
                self.net = torch.nn.Sequential(torch.nn.Linear(4, 6), torch.nn.Dropout(0.2), torch.nn.Linear(6, 2))

            def forward(self, x):
                return self.net(x)

            def training_step(self, batch, index):
                return torch.nn.functional.mse_loss(self(batch[0]), batch[1])

            def configure_optimizers(self):
                return torch.optim.Adam(self.parameters(), lr=1e-2)

        lightning.seed_everything(0, verbose=False)
        module = Module()
        data = torch.randn(32, 4), torch.randn(32, 2)
        loader = torch.utils.data.DataLoader(torch.utils.data.TensorDataset(*data), batch_size=8, shuffle=True)
        probes = {"loss": ds.torch.loss(), "adam": ds.torch.sharpness(preconditioned=True, every=[2, 4, 6])}
        callback = WatchCallback("mse", data, probes, every=2)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            trainer = lightning.Trainer(
                max_steps=6, accelerator="cpu", logger=CSVLogger(folder), callbacks=[callback] if watched else [],
                enable_progress_bar=False, enable_model_summary=False, log_every_n_steps=1,
            )  # fmt: skip
            trainer.fit(module, loader)
        return module, callback.watch, trainer, data

    def test_it_logs_through_the_loggers_and_changes_nothing(self, tmp_path):
        alone, _, _, _ = self.train(tmp_path / "alone", watched=False)
        beside, watch, trainer, _ = self.train(tmp_path / "beside", watched=True)
        for name, value in alone.state_dict().items():
            assert torch.equal(value, beside.state_dict()[name]), name
        assert watch.trace.step.values.tolist() == [0, 2, 4, 6]
        assert watch.trace.adam.values.shape == (3,)
        assert (watch.trace.adam.values > 0).all()
        trainer.logger.save()
        with open(next((tmp_path / "beside").rglob("metrics.csv"))) as file:
            rows = [row for row in csv.DictReader(file) if row["dynascope/loss"]]
        assert [int(row["step"]) for row in rows] == [0, 2, 4, 6]
        np.testing.assert_allclose([float(row["dynascope/loss"]) for row in rows], watch.trace.loss, rtol=1e-6)

    def test_its_checkpoint_is_replayed(self, tmp_path):
        module, _, trainer, data = self.train(tmp_path, watched=True)
        trainer.save_checkpoint(tmp_path / "epoch=1-step=6.ckpt")
        trace = ds.torch.replay(module.net, tmp_path, "mse", data)
        expected = torch.nn.functional.mse_loss(module.net.eval()(data[0]), data[1]).detach()
        assert float(trace.loss[0]) == pytest.approx(float(expected), rel=1e-6)
