"""Theory as functions: the closed form, the recursion, the lemmas, the stage predictor."""

import jax
import jax.numpy as jnp
import numpy as np

from dynascope.theory.concept import (
    assumptions,
    entries,
    jacobian_paths,
    jacobian_recursion,
    lemmas,
    linear_loss,
    minor_entries,
    one_layer,
    stage_times,
    starts,
)

jax.config.update("jax_enable_x64", True)  # theory is float64

# Theorem 4.1: the output of one linear layer, growth toward the target plus the noise of the initial weights
mu = jnp.array([1.0, 2.0])
a = one_layer.second_moment(mu, (0.05, 0.05), dim=2)
z = linear_loss.combined_means(mu, 2)
W0 = jnp.asarray(np.random.default_rng(0).uniform(-0.5, 0.5, (2, 2)))
terms = one_layer.output_terms(jnp.linspace(0.0, 5.0, 6), z, W0, a)
print("output at t = 0 .. 5, concept 1:", np.round(terms.output[:, 0], 3))
exact = one_layer.discrete_output_terms(jnp.arange(6), 0.1, z, W0, a)  # gradient descent, not its flow
assert exact.output.shape == (6, 2)

# The symmetric model f(x) = U U^T x: dW/dt = growth - suppression - noise, in the paper's unit of time
U0 = jnp.asarray(starts.gaussian_factor(22, 0.1, 2))
W = jacobian_recursion.jacobian_of(U0)
parts = [part(W, a) for part in (jacobian_recursion.growth, jacobian_recursion.suppression, jacobian_recursion.noise)]
np.testing.assert_allclose(parts[0] - parts[1] - parts[2], jacobian_recursion.velocity(W, a), atol=1e-15)

# whole trajectories: the paper's recursion on W, and gradient descent on U
eta = 0.02  # in the paper's unit of time: twice the learning rate
euler = jacobian_paths.jacobian_euler_path(W, a, eta, steps=1500)
factor = jacobian_paths.factor_path(U0, a, eta, steps=1500)
apart = jnp.abs(euler - factor).max(axis=(1, 2))
print(f"they differ by up to {apart.max():.3f} on the way and by {apart[-1]:.0e} at the end")
loss = linear_loss.out_of_distribution_loss(factor, z)

# when each concept is learned, from the initial weights alone
pivots = stage_times.log_pivots_of_factor(U0, a)
predicted = stage_times.stage_times(pivots, a)
steps = stage_times.steps_at(predicted.half, a, eta)
measured = jnp.argmax(jnp.diagonal(factor, axis1=1, axis2=2) >= 0.5, axis=0)
print("major entries at 1/2: predicted", np.round(steps, 1), "measured", measured)

# where the minor entry w_12 peaks (concept 2 is the dominant one)
peak = minor_entries.minor_peak(W[0, 1], a[1], a[0], jnp.log(W[1, 1]), pivots[0])
print(
    f"w_12 peaks at {peak.value:.3f}, step {peak.time / eta:.0f}; measured {factor[:, 0, 1].max():.3f}, step",
    int(factor[:, 0, 1].argmax()),
)
print("classes of entries for d = 3, s = 2:\n", entries.entry_classes(dim=3, concepts=2).labels)

# Appendix D: constants that satisfy its assumptions, and its lemmas on a path
strengths = np.array([1.0, 4.0])
constants = assumptions.feasible_constants(strengths)
print(f"the assumptions need initial weights of size e^{constants.log_omega:.1f}")
start = np.exp(constants.log_omega) * np.array([[1.5, 1.0], [1.0, 1.5]])
for condition in assumptions.check_assumptions(strengths, start, constants):
    if not condition.holds:
        print("  assumption violated:", condition.name)
path = jacobian_paths.jacobian_euler_path(jnp.asarray(start), jnp.asarray(strengths), constants.eta, steps=90_000)
for verdict in lemmas.check_lemmas(np.asarray(path), strengths, constants):
    if not verdict.holds:
        print(f"  {verdict.lemma} fails from step {verdict.first_violation}: {verdict.statement}")
