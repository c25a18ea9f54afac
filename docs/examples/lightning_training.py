"""Watch a Trainer of Lightning."""

import sys
from importlib.util import find_spec

if find_spec("lightning") is None:
    sys.exit(print("this example needs Lightning: pip install 'dynascope[lightning]'"))

import lightning
import torch

import dynascope as ds


class Regression(lightning.LightningModule):
    def __init__(self):
        super().__init__()
        self.layers = torch.nn.Sequential(torch.nn.Linear(8, 32), torch.nn.Tanh(), torch.nn.Linear(32, 1))

    def forward(self, x):
        return self.layers(x)

    def training_step(self, batch, _):
        x, y = batch
        return torch.nn.functional.mse_loss(self(x), y)

    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), lr=0.1)


torch.manual_seed(0)
torch.set_num_threads(1)
x = torch.randn(64, 8)
data = (x, torch.sin(2 * x[:, :1]))
loader = torch.utils.data.DataLoader(torch.utils.data.TensorDataset(*data), batch_size=16)
probes = {"loss": ds.torch.loss(), "sharpness": ds.torch.sharpness()}

# the trainer as it was, with one callback more
from dynascope.torch.lightning import WatchCallback

recorder = WatchCallback("mse", data, probes, every=2)
trainer = lightning.Trainer(callbacks=[recorder], max_steps=4, accelerator="cpu", logger=False)
trainer.fit(Regression(), loader)

print(recorder.watch.trace)
