"""What Chapters 3 and 4 of "Toward Understanding the Dynamics of Over-parameterized Neural Networks" print and
arithmetic refutes (for Chapter 2 see `theory.linearity.errata`).

Each erratum carries the printed statement, what holds instead, and `evidence()`: numbers of a counter-example, computed
afresh, with the verdict whether they refute the statement. The counter-examples are trained in NumPy, independently of
the maps that they check. Slips of notation without consequence are not listed, nor are measurements that did not
reproduce: those are claims of the experiments.
"""

from __future__ import annotations

import math

import jax.numpy as jnp
import numpy as np

from dynascope.curves import scaling_exponent
from dynascope.theory.catapult import general_quadratic, quadratic_many, quadratic_model
from dynascope.theory.catapult.gated_network import GatedNetwork, one_example, two_sided
from dynascope.theory.catapult.quadratic_model import Normalized, State
from dynascope.theory.erratum import Erratum, Evidence


def falling_kernel(label_size: float = 1.3, v: float = 3.2, width: float = 1e5) -> Evidence:
    """A u between the two thresholds at which v rises."""
    printed = 4 * label_size / (width * (4 - v) ** 2)
    valid = float(quadratic_model.falling_above(v, label_size, width))

    def change(u: float) -> float:
        w = -label_size * math.sqrt(u / width)
        after = quadratic_model.normalized_step(Normalized(jnp.asarray(u), jnp.asarray(w), jnp.asarray(v)))
        return float(after.v) - v

    numbers = {"printed": printed, "corrected": valid, "v' - v at 0.99 of the corrected": change(0.99 * valid),
               "at 1.01 of it": change(1.01 * valid)}  # fmt: skip
    return Evidence(numbers, change(0.99 * valid) > 0 > change(1.01 * valid) and printed < 0.99 * valid)


def turning_point(label_size: float = 2.5, width: float = 1e4) -> Evidence:
    """Case (2.1): multiplier -1 and v' = v. Its u is 4 C^2/m, and the output -y goes to 3y."""
    low, high = 1e-9 / width, 100 * label_size**2 / width

    def change(u: float) -> float:
        w = -label_size * math.sqrt(u / width)
        return u * (4 - (2 + u + w)) + 4 * w

    for _ in range(200):
        middle = (low + high) / 2
        low, high = (middle, high) if change(middle) < 0 else (low, middle)
    w = -label_size * math.sqrt(low / width)
    c, y = label_size**2 / width, 1.0  # eta = 1
    state = State(jnp.asarray(w / (c * y)), jnp.asarray(2 + low + w))
    after = quadratic_model.step(state, 1.0, y, c)
    numbers = {"u m / C^2": low * width / label_size**2, "output before, over y": float(state.residual) + y,
               "output after, over y": float(after.residual) + y}  # fmt: skip
    right = abs(numbers["u m / C^2"] - 4) < 0.05 and abs(numbers["output after, over y"] - 3) < 0.1
    return Evidence(numbers, right)


def missed_point(rate: float = 2.5, width: float = 1e4) -> Evidence:
    """u = 4, v = 4 + w stays where it is, and repels."""
    c = 1 / width
    points = quadratic_model.fixed_points(rate, 1.0, c)
    after = quadratic_model.step(points.high, rate, 1.0, c)
    moved = max(float(abs(new - old)) for new, old in zip(after, points.high, strict=True))
    spectrum = np.sort(np.abs(np.linalg.eigvals(np.asarray(quadratic_model.jacobian(points.high, rate, 1.0, c)))))
    numbers = {"moves by": moved, "smaller eigenvalue": float(spectrum[0]), "larger eigenvalue": float(spectrum[1])}
    return Evidence(numbers, moved < 1e-8 and spectrum[0] > 1)


def kernel_weights() -> Evidence:
    """The kernel on scalar inputs: its eigenvalues against sum lambda_i p_i p_i^T with and without the division."""
    net = two_sided()
    x = jnp.asarray(net.x[:, 0])
    p, K = np.asarray(quadratic_many.directions(x)), net.kernel()
    lambdas = quadratic_many.kernel_eigenvalues(
        x, jnp.asarray(net.u[:, 0]), jnp.asarray(net.v), jnp.asarray(net.u[:, 0])
    )
    printed = np.einsum("s,si,sj->ij", np.asarray(lambdas), p, p)
    size = np.linalg.norm(K)
    numbers = {
        "printed, relative error": float(np.linalg.norm(printed - K) / size),
        "divided by |p|^2": float(np.linalg.norm(np.asarray(quadratic_many.kernel(lambdas, x)) - K) / size),
    }
    return Evidence(numbers, numbers["printed, relative error"] > 0.1 > 1e-10 > numbers["divided by |p|^2"])


def direction_expansion(product: float = 3.0) -> Evidence:
    """The change of lambda_1 in the first step, against Appendix B.12 with p of length 1 or as it is."""
    net = two_sided()
    width, x = len(net.v), jnp.asarray(net.x[:, 0])
    p = np.asarray(quadratic_many.directions(x))[0]
    mask, unit = (net.x[:, 0] >= 0).astype(float), p / np.linalg.norm(p)
    residual, before = net.outputs() - net.y, float(unit @ net.kernel() @ unit)
    rate = product / before
    cross = float((residual * mask) @ (net.y * mask))

    def printed(direction: np.ndarray) -> float:
        part = 0.5 * float(residual @ direction) ** 2
        return 2 * rate / width * part * (rate * before - 4) - 4 * rate / width * cross

    scalar = quadratic_model.step(
        State(jnp.asarray(residual @ unit), jnp.asarray(before)), rate, float(net.y @ unit), float(p @ p) / width
    )
    net.step(rate)
    true = float(unit @ net.kernel() @ unit) - before
    numbers = {"in weights": true, "corrected": float(scalar.kernel) - before, "printed, |p| = 1": printed(unit),
               "printed, p = x 1{x >= 0}": printed(p)}  # fmt: skip
    off = [abs(numbers[name] / true - 1) for name in ("printed, |p| = 1", "printed, p = x 1{x >= 0}")]
    return Evidence(numbers, abs(numbers["corrected"] / true - 1) < 1e-8 and min(off) > 0.1)


def kernel_recursion(count: int = 4, weights: int = 30, rate: float = 0.1, curvature: float = 1.0) -> Evidence:
    """A random quadratic model: K after a step in weights, by (3.16) as printed, and as corrected."""
    draw = np.random.default_rng(0)
    J = draw.standard_normal((count, weights)) / math.sqrt(weights)
    H = curvature * draw.standard_normal((count, weights, weights)) / math.sqrt(weights)
    H, r = (H + H.transpose(0, 2, 1)) / 2, draw.standard_normal(count)
    G = np.asarray(general_quadratic.turning(jnp.asarray(J), jnp.asarray(H), jnp.asarray(r)))
    moved = J + np.einsum("ijk,k->ij", H, -rate * J.T @ r)
    printed = J @ J.T - rate / 4 * (4 * G @ J.T - rate * G @ G.T)
    beyond = general_quadratic.remainders(jnp.asarray(J), jnp.asarray(G), rate)
    numbers = {
        "printed, error": float(np.max(np.abs(printed - moved @ moved.T))),
        "printed, asymmetry": float(np.max(np.abs(printed - printed.T))),
        "corrected": float(np.max(np.abs(J @ J.T - np.asarray(beyond.kernel) - moved @ moved.T))),
    }
    return Evidence(numbers, numbers["printed, error"] > 1e-3 > 1e-12 > numbers["corrected"])


def without_linear_term(gamma: float = 0.01, dim: int = 100) -> Evidence:
    """g = gamma/2 w^T Sigma w with Sigma^2 = |x|^2 I and y = 0: one step in weights, as printed, and as corrected."""
    draw = np.random.default_rng(0)
    norm, signs, w = 10.0, draw.choice([-1.0, 1.0], dim), draw.standard_normal(dim)

    def state(w: np.ndarray) -> tuple[float, float]:
        return gamma / 2 * norm * float(w @ (signs * w)), (gamma * norm) ** 2 * float(w @ w)

    g, kernel = state(w)
    rate = 3 / kernel
    true = state(w - rate * g * gamma * norm * signs * w)
    printed = ((1 - rate * kernel + gamma * rate**2 * norm**2 * g**2) * g,
               kernel - gamma * norm**2 * g**2 * (4 - rate * kernel))  # fmt: skip
    right = general_quadratic.pure_step(State(jnp.asarray(g), jnp.asarray(kernel)), rate, gamma, norm**2)
    numbers = {"g': printed, error": abs(printed[0] - true[0]), "g': corrected": abs(float(right[0]) - true[0]),
               "lambda': printed, error": abs(printed[1] - true[1]),
               "lambda': corrected": abs(float(right[1]) - true[1])}  # fmt: skip
    return Evidence(numbers, max(numbers["g': corrected"], numbers["lambda': corrected"]) < 1e-11
                    and min(numbers["g': printed, error"], numbers["lambda': printed, error"]) > 0.1)  # fmt: skip


def remainder_sign(width: int = 2000) -> Evidence:
    """At eta lambda_0 = 4.4 the kernel grows: R_lambda, which is subtracted, is negative."""
    losses, kernels, rate = one_example(width, 4.4, 6)
    taken, late = -np.diff(kernels), losses[:-1] > 100 * losses[0]
    numbers = {"least R_lambda": float(taken[late].min()), "greatest R_lambda": float(taken[late].max()),
               "eta lambda at the end": float(rate * kernels[-1])}  # fmt: skip
    return Evidence(numbers, numbers["greatest R_lambda"] < 0 and numbers["eta lambda at the end"] > 4)


def start_of_w(widths: tuple[int, ...] = (100, 1000, 10_000), starts: int = 100, label: float = 1.0) -> Evidence:
    """The slope of log |w(0)| against log m over random starts at eta lambda_0 = 3. w is seen in a step in weights: the
    residual is multiplied by k = 1 - eta lambda + u + w, and w is to u + w as the label to the output."""
    sizes = []
    for width in widths:
        found = []
        for seed in range(starts):
            net = GatedNetwork(np.array([[1.0, -0.5, 0.7, 1.2, -0.3]]), np.array([label]), width, seed)
            output = net.outputs().item()
            net.step(3 / net.kernel().item())
            multiplier = (net.outputs().item() - label) / (output - label)
            found.append(abs((multiplier - 1 + 3) * label / output))
        sizes.append(np.median(found))
    found = float(scaling_exponent(widths, sizes))
    return Evidence({"slope in m": found, "printed": -1.5}, abs(found + 1) < 0.1)


def slightly_above(width: int = 2000) -> Evidence:
    """At eta lambda_0 = 2.05 the loss of the quadratic model first rises."""
    losses, kernels, _ = one_example(width, 2.05, 400)
    numbers = {"loss at its peak over the first": float(losses.max() / losses[0]),
               "kernel at the end over the first": float(kernels[-1] / kernels[0]),
               "loss at the end over the first": float(losses[-1] / losses[0])}  # fmt: skip
    return Evidence(numbers, numbers["loss at its peak over the first"] > 1.5)


def after_catapult(width: int = 2000) -> Evidence:
    """After a catapult eta lambda is below 2, not above; and |I - eta K| < 2 alone lets the loss grow."""
    _, kernels, rate = one_example(width, 3.0, 200)
    numbers = {"eta lambda at the end": float(rate * kernels[-1]),
               "loss after 10 steps of a linear model with |1 - eta lambda| = 1.5": 1.5**20}  # fmt: skip
    return Evidence(numbers, numbers["eta lambda at the end"] < 2)


def units_of_rates() -> Evidence:
    """Figure 3.3's data: 2/lambda_i and n/lambda_i; the figure says 0.37 and 0.39."""
    net = two_sided()
    second, first = np.linalg.eigvalsh(net.kernel())[-2:]
    count = len(net.y)
    numbers = {"2/lambda_1": float(2 / first), "2/lambda_2": float(2 / second), "n/lambda_1": float(count / first),
               "n/lambda_2": float(count / second)}  # fmt: skip
    return Evidence(numbers, numbers["2/lambda_2"] < 0.02 and 0.3 < numbers["n/lambda_1"] < 0.5)


def half_of_curvature(width: int = 200, rate: float = 0.5) -> Evidence:
    """r' - (I - 2 eta K/n) r of the quadratic model against dw^T H_i dw with and without the 1/2."""
    net = two_sided(8, width)
    count, residual, K, J = len(net.y), net.outputs() - net.y, net.kernel(), net.jacobian()
    move = -2 * rate / count * J.T @ residual
    du, dv = move[: net.u.size].reshape(net.u.shape), move[net.u.size :]
    form = 2 * net.scale * (net.gates * (net.x @ du.T)) @ dv  # dw^T H_i dw
    net.step(2 * rate / count)
    beyond = net.outputs() - net.y - (residual - 2 * rate / count * K @ residual)
    size = float(np.max(np.abs(beyond)))
    numbers = {"largest Delta_i": size, "error with 1/2": float(np.max(np.abs(beyond - form / 2))),
               "error without": float(np.max(np.abs(beyond - form)))}  # fmt: skip
    return Evidence(numbers, numbers["error with 1/2"] < 1e-12 < 0.1 * size < numbers["error without"])


def biases(count: int = 400, dim: int = 100, width: int = 512) -> Evidence:
    """n/lambda_max of a two-layer network on N(0, I) inputs without biases, and with trainable N(0, 1) ones."""
    draw = np.random.default_rng(0)
    x, u, v = draw.standard_normal((count, dim)), draw.standard_normal((width, dim)), draw.standard_normal(width)
    found = {}
    for name, b in (("without biases", 0.0), ("with N(0, 1) biases", 1.0)):
        z = x @ u.T / math.sqrt(dim) + b * draw.standard_normal(width)
        back = (z > 0) * v / math.sqrt(width)
        hidden = np.maximum(z, 0) / math.sqrt(width)
        K = (back @ back.T) * (x @ x.T / dim + b) + hidden @ hidden.T + b
        found[f"critical rate {name}"] = float(count / np.linalg.eigvalsh(K)[-1])
    numbers = found | {"rates used: from": 2.0, "to the first catapult": 8.0}
    return Evidence(numbers, found["critical rate with N(0, 1) biases"] < 2 < found["critical rate without biases"] < 8)


ERRATA: tuple[Erratum, ...] = (
    Erratum("kernel-recursion", "(3.16)", "K' = K - (eta/4)(4 G J^T - eta G G^T)",
            "K' = K - eta (G J^T + J G^T) + eta^2 G G^T; the printed one is not even symmetric", kernel_recursion),
    Erratum("falling-kernel", "Proposition B.5.2", "v falls if v < 4 and u > 4 C/(m (4 - v)^2)",
            "if u > 16 C^2/(m (4 - v)^2)", falling_kernel),
    Erratum("turning-point", "Theorem 3.3.4, case (2.1)",
            "an equilibrium with v of order 1 and u between 4/3 and 2 C^2/m",
            "there the residual changes its sign (the output -y goes to 3y), so it is none; and its u is 4 C^2/m",
            turning_point),
    Erratum("missed-point", "Theorem 3.3.4", "equilibria have r = 0 or u = O(1/m)",
            "u = 4, v = 4 + w is one too; it is unstable, so the theorem's conclusion stands", missed_point),
    Erratum("kernel-weights", "Proposition B.11.1", "K = lambda_1 p_1 p_1^T + lambda_2 p_2 p_2^T, p_1 = x 1{x >= 0}",
            "each term is divided by |p_i|^2", kernel_weights),
    Erratum("direction-expansion", "Appendix B.12", "lambda_1 changes by (2 eta/m) Pi_1 L (eta lambda_1 - 4) "
            "- (4 eta/m) <r o m, y o m>", "the factor |p_1|^2 is missing, and rho <y, p>/|p| stands in the place of "
            "<r o m, y o m>: exactly one example with |x|^2 -> |p_1|^2, d -> 1", direction_expansion),
    Erratum("without-linear-term", "Proposition B.13.1", "g' = (1 - eta lambda + gamma eta^2 |x|^2 g^2) g, "
            "lambda' = lambda - gamma |x|^2 g^2 (4 - eta lambda)",
            "gamma^2 in both, and eta gamma^2 in the second: gamma^2 plays 1/m", without_linear_term),
    Erratum("remainder-sign", "Section 3.3", "training diverges where R_lambda > 0",
            "R_lambda is subtracted: it is negative where the kernel grows", remainder_sign),
    Erratum("start-of-w", "Appendices B.3, B.4", "|w(0)| = O(m^(-3/2))", "|w(0)| is of order 1/m", start_of_w),
    Erratum("slightly-above", "Section 3.3",
            "slightly above the critical rate kernel and loss both fall monotonically", "the loss rises first",
            slightly_above),
    Erratum("after-catapult", "Appendix B.11", "eta > 2/lambda after the catapult, |I - eta K| < 2",
            "eta < 2/lambda, |I - eta K| < 1", after_catapult),
    Erratum("units-of-rates", "Figures 3.3 and B.1", "critical rates 2/lambda_i = 0.37 and 0.39",
            "these are n/lambda_i, of the mean squared error; 2/lambda_i is 0.006", units_of_rates),
    Erratum("half-of-curvature", "(4.3)", "Delta_i = dw^T H_i dw", "half of it", half_of_curvature),
    Erratum("biases", "Appendix C.6", "networks with biases, trained on rank-2 data at rates 2, then 8",
            "with N(0, 1) biases the critical rate is a quarter of 2 and such training starts far above it; the rates "
            "fit networks without biases", biases),
)  # fmt: skip
