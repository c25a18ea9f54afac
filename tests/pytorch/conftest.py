"""What the tests of `dynascope.torch` share: small networks, data, and one thread."""

from __future__ import annotations

import pytest

torch = pytest.importorskip("torch", reason="the optional extra `torch` is not installed")
nn, F = torch.nn, torch.nn.functional


class Attention(nn.Module):
    """A block of a transformer and a readout."""

    def __init__(self) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(8)
        self.attention = nn.MultiheadAttention(8, 2, batch_first=True)
        self.projection, self.out = nn.Linear(8, 24), nn.Linear(8, 3)

    def forward(self, x):
        normed = self.norm(x)
        x = x + self.attention(normed, normed, normed)[0]
        q, k, v = self.projection(x).chunk(3, dim=-1)
        x = x + F.scaled_dot_product_attention(q, k, v, is_causal=True)
        return self.out(x.mean(dim=1))


def perceptron():
    return nn.Sequential(nn.Linear(5, 12), nn.Tanh(), nn.Dropout(), nn.Linear(12, 10), nn.GELU(), nn.Linear(10, 3))


def convolutional():
    net = nn.Sequential(
        nn.Conv2d(2, 4, 3, padding=1), nn.BatchNorm2d(4), nn.ReLU(inplace=True), nn.MaxPool2d(2),
        nn.Conv2d(4, 6, 3, stride=2), nn.Softplus(), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(6, 3),
    )  # fmt: skip
    net[1].running_mean.uniform_(-1, 1)
    net[1].running_var.uniform_(0.5, 2)
    return net


NETWORKS = {
    "perceptron": (perceptron, (5,)),
    "convolutional": (convolutional, (2, 9, 9)),
    "attention": (Attention, (4, 8)),
}


@pytest.fixture(autouse=True)
def _one_thread():
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    torch.manual_seed(0)
    yield
    torch.set_num_threads(before)


@pytest.fixture
def networks():
    """A function and the shape of its inputs for each name."""
    return NETWORKS


@pytest.fixture(params=NETWORKS)
def network(request: pytest.FixtureRequest):
    """A network in training mode, and data for it."""
    make, shape = NETWORKS[request.param]
    return make(), (torch.randn(24, *shape), torch.randn(24, 3))
