"""Examples of the names of `dynascope.torch`, one for each cell. They need PyTorch."""

import torch

import dynascope as ds

torch.manual_seed(0)
x, y = torch.randn(40, 4), torch.randn(40, 2)
model = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.Tanh(), torch.nn.Linear(8, 2))
optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)


def record(**probes):
    """Three recordings, with a step of Adam between them."""
    watch = ds.torch.Watch(model, "mse", (x, y), probes, optimizer=optimizer)
    for step in range(3):
        optimizer.zero_grad()
        torch.nn.functional.mse_loss(model(x), y).backward()
        optimizer.step()
        watch.record(step)
    return watch.trace


# %% activations
record(inside=ds.torch.activations("1"))[["inside", "inside_sparsity"]]  # effective rank of the hidden layer

# %% agop_alignment
record(alike=ds.torch.agop_alignment("first")).alike.values

# %% attention_entropy
layer = torch.nn.TransformerEncoderLayer(4, 2, 8, batch_first=True)
reader = torch.nn.Sequential(layer, torch.nn.Flatten(), torch.nn.Linear(12, 1))
data = torch.randn(5, 3, 4), torch.randn(5, 1)
watch = ds.torch.Watch(reader, "mse", data, {"attention": ds.torch.attention_entropy()})
watch.record(0)
watch.trace.attention.values  # (step, layer, head), in nats

# %% batch_sharpness
record(met=ds.torch.batch_sharpness(10))[["met", "met_error"]].to_dataframe()

# %% cka
record(alike=ds.torch.cka(["0", "1"]), change=ds.torch.cka("1", to="previous")).alike.values

# %% displacement
record(moved=ds.torch.displacement()).moved.values

# %% gradient_noise
record(noise=ds.torch.gradient_noise())[["noise", "noise_error"]].to_dataframe()

# %% hessian_density
record(density=ds.torch.hessian_density([-0.5, 0.0, 0.5, 1.0], width=0.2)).density.isel(step=0).values

# %% kernel_distance
record(distance=ds.torch.kernel_distance(x[:10])).distance.values

# %% kernel_norm
record(kernel=ds.torch.kernel_norm(x[:10]))[["kernel", "kernel_critical_rate"]].to_dataframe()

# %% learning_rate
record(rate=ds.torch.learning_rate()).rate.values

# %% loss
record(loss=ds.torch.loss()).loss.values

# %% Objective
objective = ds.torch.Objective(model, "mse", (x, y), only="2.*")
gradient, product = objective.linearize()
product(gradient) @ gradient / gradient.square().sum()  # the curvature along the gradient

# %% replay
states = {0: model.state_dict(), 100: {name: 2 * value for name, value in model.state_dict().items()}}
ds.torch.replay(model, states, "mse", (x, y)).loss.values

# %% sharpness
record(plain=ds.torch.sharpness(), adam=ds.torch.sharpness(preconditioned=True))[["plain", "adam"]].to_dataframe()

# %% singular_values
record(values=ds.torch.singular_values(3))["values"].isel(step=0).to_pandas()

# %% Snapshot
record(square=ds.probes.probe(lambda snapshot: snapshot.loss() ** 2)).square.values

# %% top_eigenvalues
record(top=ds.torch.top_eigenvalues(3))[["top", "top_error"]].isel(step=0).to_dataframe()

# %% Watch
watch = ds.torch.Watch(model, "mse", (x, y), {"loss": ds.torch.loss(), "own": lambda model: model[0].weight.norm()})
for step in range(3):
    watch.record(step)
    with torch.no_grad():
        model[0].weight *= 0.9
watch.trace.own.values

# %% weight_ranks
record(ranks=ds.torch.weight_ranks(), moved=ds.torch.weight_ranks(change=True)).ranks.isel(step=-1).to_series()

# %% weight_updates
record(updates=ds.torch.weight_updates()).updates.isel(step=-1).to_series()
