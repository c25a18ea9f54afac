"""Examples of the names of `dynascope.geometry`, one for each cell."""

import jax
import jax.numpy as jnp

import dynascope as ds

net = ds.models.MLP(3, 2, width=8, out=1, key=jax.random.key(0), activation="tanh")
x = jax.random.normal(jax.random.key(1), (20, 3))
y = x[:, 0] * x[:, 1]


def loss(net):
    """The mean squared error of a network with one output."""
    return jnp.mean((jax.vmap(net)(x)[:, 0] - y) ** 2)


def on_rows(net, rows):
    """The mean squared error on some rows."""
    inputs, targets = rows
    return jnp.mean((jax.vmap(net)(inputs)[:, 0] - targets) ** 2)


def quartic(w):
    """A loss of one weight with a minimum at 0."""
    return jnp.sum(w**2 / 2 - w**4 / 20)


# %% agop
ds.geometry.agop(net, x)

# %% agop_factored
factored = ds.geometry.agop_factored(net, x)
float(ds.geometry.alignment(factored, jnp.diag(jnp.array([1.0, 1.0, 0.0]))))

# %% alignment
float(ds.geometry.alignment(jnp.eye(2), jnp.diag(jnp.array([1.0, 0.0]))))

# %% directional_derivatives
ds.geometry.directional_derivatives(quartic, jnp.array([0.5]), jnp.array([1.0]))

# %% discriminant
derivatives = ds.geometry.directional_derivatives(quartic, jnp.array([0.0]), jnp.array([1.0]))
float(ds.geometry.discriminant(derivatives))  # 3 f'''² - f'' f''''

# %% flip
found = ds.geometry.flip(quartic, jnp.array([0.5]), 0.5)
print(f"{found.discriminant:.3f} at {found.fraction:.2f} of the step")

# %% line_search_minimum
found = ds.geometry.line_search_minimum(quartic, jnp.array([0.5]), 2.0)
print(f"least at {found.fraction:.2f} of the step, where the loss is {found.loss:.4f}")

# %% Eigenpairs
found = ds.geometry.top_eigenpairs(loss, net, k=2)
print(found.values, found.errors, found.converged)

# %% top_eigenpairs
found = ds.geometry.top_eigenpairs(loss, net, k=2, tolerance=1e-6)
print(found.values, found.residuals)

# %% precondition
scale = jnp.array([1.0, 4.0])  # divides the gradient, entry by entry
found = ds.geometry.top_eigenpairs(*ds.geometry.precondition(quartic, jnp.array([0.0, 0.0]), scale), k=2)
print(found.values)  # of P^(-1/2) H P^(-1/2): 1 and 1/4

# %% dense_hessian
ds.geometry.dense_hessian(quartic, jnp.array([0.0, 1.0]))

# %% hessian_vector_product
ds.geometry.hessian_vector_product(quartic, jnp.array([0.0, 1.0]), jnp.array([1.0, 1.0]))

# %% sharpness_gradient
w = jnp.array([0.5, 1.0])
found = ds.geometry.top_eigenpairs(quartic, w)
ds.geometry.sharpness_gradient(quartic, w, found.vectors[0])

# %% critical_rate
float(ds.geometry.critical_rate(net, x))

# %% eigenspace_losses
found = ds.geometry.eigenspace_losses(net, x, y[:, None], splits=(1, 5))
print(found)

# %% kernel_change
moved = jax.tree.map(lambda leaf: 1.1 * leaf, net)
float(ds.geometry.kernel_change(moved, net, x))

# %% kernel_eigenpairs
ds.geometry.kernel_eigenpairs(net, x, k=2).values

# %% polyak_ratio
float(ds.geometry.polyak_ratio(net, x, y[:, None]))

# %% block_norms
params = {"a": jnp.array([1.0, 2.0]), "b": jnp.array([3.0])}
groups = {"a": 0, "b": 1}
ds.geometry.block_norms(lambda p: jnp.sum(p["a"]) * p["b"][0], params, groups)

# %% hessian_norm
ds.geometry.hessian_norm(quartic, jnp.array([0.0, 1.0]))

# %% linearity_gap
ds.geometry.linearity_gap(lambda net: net(x[0])[0], net, 0.5, jax.random.key(2))

# %% gram_imbalance
float(ds.geometry.gram_imbalance(jnp.eye(2), 2 * jnp.eye(2)))

# %% imbalance
ds.geometry.imbalance(jnp.array([1.0, 2.0]), jnp.array([1.0, 1.0]))

# %% leading_components
C = jnp.diag(jnp.array([2.0, 1.0]))
list(ds.geometry.leading_components(jnp.eye(2), jnp.eye(2), C, jnp.array([1.0, 0.0])))

# %% multiplier
orbit = jnp.array(0.7995)  # close to the orbit of period 2 of the logistic map at 3.2
float(ds.geometry.multiplier(lambda x: 3.2 * x * (1 - x), orbit, period=2))

# %% multipliers
ds.geometry.multipliers(lambda w: jnp.array([0.5, -0.9]) * w, jnp.zeros(2), period=2)

# %% norm_ratio
ds.geometry.norm_ratio(jnp.array([3.0, 4.0]), jnp.array(5.0))

# %% residual
float(ds.geometry.residual(lambda x: 1 - x, jnp.array(0.3), period=2))

# %% perturbation_singular_values
now, then = (2 * jnp.ones((4, 2)), jnp.ones((4, 2))), (jnp.ones((4, 2)), jnp.ones((4, 2)))
ds.geometry.perturbation_singular_values(now, then)

# %% product_singular_values
ds.geometry.product_singular_values(jnp.ones((4, 2)), jnp.ones((3, 2)))

# %% random_perturbation
now, then = (2 * jnp.ones((4, 2)), jnp.ones((4, 2))), (jnp.ones((4, 2)), jnp.ones((4, 2)))
[factor.shape for factor in ds.geometry.random_perturbation(jax.random.key(0), now, then)]

# %% SpectralDensity
spectrum = ds.geometry.spectral_density(loss, net, jax.random.key(2), draws=8, degree=16)
density, standard_error = spectrum.density(jnp.linspace(0, 2, 5), 0.2)
density

# %% spectral_density
trace, standard_error = ds.geometry.spectral_density(loss, net, jax.random.key(2)).moment(1)
print(f"trace of the Hessian: {trace:.2f} ± {standard_error:.2f}")

# %% kernel_product
outputs, product = ds.geometry.kernel_product(net, x)
product(jnp.ones(20)).shape  # the kernel times a vector, without the kernel

# %% tangent_kernel
ds.geometry.tangent_kernel(net, x[:2])

# %% low_rank
ds.geometry.low_rank(jnp.diag(jnp.array([3.0, 2.0, 1.0])), rank=1)

# %% truncate
cut = ds.geometry.truncate({"w": jnp.diag(jnp.array([3.0, 2.0, 1.0]))}, lambda model: model["w"], rank=2)
jnp.linalg.matrix_rank(cut["w"])


# %% gradient_noise
ds.geometry.gradient_noise(on_rows, net, (x, y))

# %% GradientNoise
noise = ds.geometry.gradient_noise(on_rows, net, (x, y), rows=4)
float(noise.scale), float(noise.error)

# %% batch_sharpness
ds.geometry.batch_sharpness(on_rows, net, (x, y), batch=4, key=jax.random.key(2))

# %% BatchSharpness
curvature = ds.geometry.batch_sharpness(on_rows, net, (x, y), batch=20, key=jax.random.key(2), draws=4)
float(curvature.value), float(curvature.error)

# %% linear_cka
ds.geometry.linear_cka(x, jax.vmap(net)(x))
