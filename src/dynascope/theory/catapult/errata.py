"""Counter-examples to statements of Chapters 3 and 4 of "Toward Understanding the Dynamics of Over-parameterized Neural
Networks" (for Chapter 2 see `theory.linearity.errata`).

Each function returns the numbers of one; `experiments.catapult.errata` quotes the printed statements and judges them.
Networks are trained in NumPy, independently of the maps that they check.
"""

from __future__ import annotations

import math

import jax.numpy as jnp
import numpy as np

from dynascope.curves import scaling_exponent
from dynascope.theory.catapult import general_quadratic, quadratic_many, quadratic_model
from dynascope.theory.catapult.gated_network import ONE_INPUT, GatedNetwork, one_example, two_sided_network
from dynascope.theory.catapult.quadratic_model import Normalized, State
from dynascope.theory.domains import check_arguments

Found = dict[str, float]


@check_arguments
def falling_kernel(label_size: float = 1.3, v: float = 3.2, width: float = 1e5) -> Found:
    """The thresholds of u above which v should fall; how v changes at twice the printed one and around the other.

    Args:
        label_size: C = eta |x| |y| / sqrt(d). Default: 1.3.
        v: eta lambda. Default: 3.2.
        width: Width m. Default: 100000.0.
    """
    printed = 4 * label_size / (width * (4 - v) ** 2)
    valid = float(quadratic_model.falling_threshold(v, label_size, width))

    def change(u: float) -> float:
        w = -label_size * math.sqrt(u / width)
        after = quadratic_model.normalized_step(Normalized(jnp.asarray(u), jnp.asarray(w), jnp.asarray(v)))
        return float(after.v) - v

    found = {"printed": printed, "corrected": valid, "change": change(2 * printed)}
    return found | {"just_below": change(0.99 * valid), "just_above": change(1.01 * valid)}


@check_arguments
def turning_point(label_size: float = 2.5, width: float = 1e4) -> Found:
    """The point of case (2.1): multiplier -1 and v' = v. Its u is 4 C^2/m, and the output -y goes to 3y.

    Args:
        label_size: C = eta |x| |y| / sqrt(d). Default: 2.5.
        width: Width m. Default: 10000.0.
    """
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
    outputs = {"before": float(state.residual) + y, "after": float(after.residual) + y}
    return {"height": low * width / label_size**2, **outputs}


def _missed_point(rate: float = 2.5, width: float = 1e4) -> Found:
    """How far u = 4, v = 4 + w moves in a step, and the multipliers there."""
    c = 1 / width
    point = quadratic_model.fixed_points(rate, 1.0, c).high
    after = quadratic_model.step(point, rate, 1.0, c)
    moved = max(float(abs(new - old)) for new, old in zip(after, point, strict=True))
    spectrum = np.sort(np.abs(np.linalg.eigvals(np.asarray(quadratic_model.jacobian(point, rate, 1.0, c)))))
    return {"moved": moved, "smaller": float(spectrum[0]), "larger": float(spectrum[1])}


def kernel_weights() -> Found:
    """The kernel on scalar inputs against sum lambda_i p_i p_i^T with and without the division: relative errors."""
    net = two_sided_network()
    x, u = jnp.asarray(net.x[:, 0]), jnp.asarray(net.u[:, 0])
    p, K = np.asarray(quadratic_many.directions(x)), net.kernel()
    lambdas = quadratic_many.kernel_eigenvalues(x, u, jnp.asarray(net.v), u)
    printed, size = np.einsum("s,si,sj->ij", np.asarray(lambdas), p, p), np.linalg.norm(K)
    corrected = np.asarray(quadratic_many.kernel(lambdas, x))
    return {
        "printed": float(np.linalg.norm(printed - K) / size),
        "corrected": float(np.linalg.norm(corrected - K) / size),
    }


def _direction_expansion(product: float = 3.0) -> Found:
    """The change of lambda_1 in the first step in weights, by one example with |x|^2 -> |p_1|^2, and as in Appendix
    B.12, with p of length 1 or as it is."""
    net = two_sided_network()
    width, x = len(net.v), jnp.asarray(net.x[:, 0])
    p = np.asarray(quadratic_many.directions(x))[0]
    mask, unit = (net.x[:, 0] >= 0).astype(float), p / np.linalg.norm(p)
    residual, before = net.outputs() - net.y, float(unit @ net.kernel() @ unit)
    rate = product / before
    cross = float((residual * mask) @ (net.y * mask))

    def printed(direction: np.ndarray) -> float:
        part = 0.5 * float(residual @ direction) ** 2
        return 2 * rate / width * part * (rate * before - 4) - 4 * rate / width * cross

    state = State(jnp.asarray(residual @ unit), jnp.asarray(before))
    after = quadratic_model.step(state, rate, float(net.y @ unit), float(p @ p) / width)
    net.step(rate)
    found = {"weights": float(unit @ net.kernel() @ unit) - before, "corrected": float(after.kernel) - before}
    return found | {"printed_unit": printed(unit), "printed_whole": printed(p)}


@check_arguments
def kernel_recursion(rate: float = 0.1, curvature: float = 1.0) -> Found:
    """The errors of K after a step of a random quadratic model by (3.16) as printed, and as corrected.

    Args:
        rate: Learning rate eta. Default: 0.1.
        curvature: Size of the Hessians. Default: 1.0.
    """
    draw, count, weights = np.random.default_rng(0), 4, 30
    J = draw.standard_normal((count, weights)) / math.sqrt(weights)
    H = curvature * draw.standard_normal((count, weights, weights)) / math.sqrt(weights)
    H, r = (H + H.transpose(0, 2, 1)) / 2, draw.standard_normal(count)
    G = np.asarray(general_quadratic.jacobian_change(jnp.asarray(J), jnp.asarray(H), jnp.asarray(r)))
    moved = J + np.einsum("ijk,k->ij", H, -rate * J.T @ r)
    printed = J @ J.T - rate / 4 * (4 * G @ J.T - rate * G @ G.T)
    corrected = J @ J.T - np.asarray(general_quadratic.remainders(jnp.asarray(J), jnp.asarray(G), rate).kernel)
    return {
        "printed": float(np.max(np.abs(printed - moved @ moved.T))),
        "asymmetry": float(np.max(np.abs(printed - printed.T))),
        "corrected": float(np.max(np.abs(corrected - moved @ moved.T))),
    }


def _without_linear_term(gamma: float = 0.01, dim: int = 100) -> Found:
    """g = gamma/2 w^T Sigma w with Sigma^2 = |x|^2 I and y = 0: errors of one step as printed, and as corrected."""
    draw = np.random.default_rng(0)
    norm, signs, w = 10.0, draw.choice([-1.0, 1.0], dim), draw.standard_normal(dim)

    def state(w: np.ndarray) -> tuple[float, float]:
        return gamma / 2 * norm * float(w @ (signs * w)), (gamma * norm) ** 2 * float(w @ w)

    g, kernel = state(w)
    rate = 3 / kernel
    true = state(w - rate * g * gamma * norm * signs * w)
    output = (1 - rate * kernel + gamma * rate**2 * norm**2 * g**2) * g
    printed = output, kernel - gamma * norm**2 * g**2 * (4 - rate * kernel)
    right = general_quadratic.pure_step(State(jnp.asarray(g), jnp.asarray(kernel)), rate, gamma, norm**2)
    return {
        "printed_output": abs(printed[0] - true[0]),
        "printed_kernel": abs(printed[1] - true[1]),
        "corrected": max(abs(float(new) - old) for new, old in zip(right, true, strict=True)),
    }


def pure_catapults(gamma: float = 1e-3, dim: int = 10_000, steps: int = 200) -> Found:
    """g = gamma/2 w^T Sigma w as above, from five random starts at eta lambda_0 from 2.2 to 3.8, by gradient descent on
    w: over all of them the least of the highest |g| and the largest last |g|, over the first, and the largest last
    eta lambda.

    Args:
        gamma: Curvature of the model.
        dim: Number of weights.
        steps: Number of steps.
    """
    products, norm, peaks, ends, last = np.linspace(2.2, 3.8, 9), 10.0, [], [], []
    for seed in range(5):
        draw = np.random.default_rng(seed)
        signs, start = draw.choice([-1.0, 1.0], dim), draw.standard_normal(dim)
        rates, w, path = products / ((gamma * norm) ** 2 * start @ start), np.repeat(start[None], 9, axis=0), []
        for _ in range(steps):
            path.append(gamma / 2 * norm * (w * w) @ signs)
            w = w - (rates * path[-1])[:, None] * gamma * norm * signs * w
        sizes = np.abs(path)
        peaks.append(np.min(sizes.max(axis=0) / sizes[0]))
        ends.append(np.max(sizes[-1] / sizes[0]))
        last.append(np.max(rates * (gamma * norm) ** 2 * np.sum(w * w, axis=1)))
    return {"peak": float(min(peaks)), "end": float(max(ends)), "product": float(max(last))}


def _remainder_sign(width: int = 2000) -> Found:
    """At eta lambda_0 = 4.4 the kernel grows: R_lambda, which is subtracted, while the loss is large."""
    losses, kernels, rate = one_example(width, 4.4, 6)
    taken, late = -np.diff(kernels), losses[:-1] > 100 * losses[0]
    return {"largest": float(taken[late].max()), "product": float(rate * kernels[-1])}


def start_of_w() -> Found:
    """The slope of log |w(0)| against log m over random starts at eta lambda_0 = 3.

    w is seen in a step in weights: the residual is multiplied by k = 1 - eta lambda + u + w, and w is to u + w as the
    label to the output.
    """
    widths, label, sizes = (100, 1000, 10_000), 1.0, []
    for width in widths:
        found = []
        for seed in range(100):
            net = GatedNetwork(ONE_INPUT, np.array([label]), width, seed)
            output = net.outputs().item()
            net.step(3 / net.kernel().item())
            multiplier = (net.outputs().item() - label) / (output - label)
            found.append(abs((multiplier - 1 + 3) * label / output))
        sizes.append(np.median(found))
    return {"slope": float(scaling_exponent(widths, sizes))}


def _slightly_above(width: int = 2000, starts: int = 100, steps: int = 20_000) -> Found:
    """At eta lambda_0 = 2.05: the highest loss and the last kernel over the first. At an excess of order 1/m, 2.0005:
    the share of random starts from which the loss never exceeds its start."""
    losses, kernels, _ = one_example(width, 2.05, 400)
    nets = [GatedNetwork(ONE_INPUT, np.ones(1), width, seed) for seed in range(starts)]
    residual, kernel = (jnp.asarray([part(net) for net in nets]) for part in (_residual, _kernel))
    c = quadratic_model.curvature(float(np.sum(ONE_INPUT**2)), width, ONE_INPUT.shape[1])
    start = quadratic_model.normalize(State(residual, kernel), 2.0005 / kernel, 1.0, c)
    path = quadratic_model.normalized_path(start, steps).u
    never = jnp.mean((jnp.max(path, axis=0) <= path[0]).astype(float))
    peak, end = float(losses.max() / losses[0]), float(kernels[-1] / kernels[0])
    return {"peak": peak, "last_kernel": end, "never_above": float(never)}


def after_catapult() -> Found:
    """The values of eta lambda in both directions after the catapult of scalar inputs at 1.5 times the critical rate,
    and the norm of I - eta K, which is 1 since K has rank 2."""
    count = 32
    net = two_sided_network(count, 1000)
    rate = 1.5 * 2 / np.linalg.eigvalsh(net.kernel())[-1]
    for _ in range(100):
        net.step(rate)
    values = rate * np.linalg.eigvalsh(net.kernel())
    norm = np.linalg.norm(np.eye(count) - rate * net.kernel(), 2)
    return {"first": float(values[-1]), "second": float(values[-2]), "norm": float(norm)}


def _units_of_rates() -> Found:
    """Figure 3.3's data: 2/lambda_i and n/lambda_i; the figure says 0.37 and 0.39."""
    net = two_sided_network()
    second, first = np.linalg.eigvalsh(net.kernel())[-2:]
    rates = {"first": 2 / first, "second": 2 / second}
    return {name: float(rate) for name, rate in rates.items()} | {
        f"{name}_of_mean": float(len(net.y) / 2 * rate) for name, rate in rates.items()
    }


def _half_of_curvature(width: int = 200, rate: float = 0.5) -> Found:
    """r' - (I - 2 eta K/n) r of the quadratic model against dw^T H_i dw with and without the 1/2: largest errors."""
    net = two_sided_network(8, width)
    count, residual, K, J = len(net.y), net.outputs() - net.y, net.kernel(), net.jacobian()
    move = -2 * rate / count * J.T @ residual
    du, dv = move[: net.u.size].reshape(net.u.shape), move[net.u.size :]
    form = 2 * net.scale * (net.gates * (net.x @ du.T)) @ dv  # dw^T H_i dw
    net.step(2 * rate / count)
    beyond = net.outputs() - net.y - (residual - 2 * rate / count * K @ residual)
    errors = {"printed": beyond - form, "corrected": beyond - form / 2}
    return {name: float(np.max(np.abs(error))) for name, error in errors.items()}


def _residual(net: GatedNetwork) -> float:
    return (net.outputs() - net.y).item()


def _kernel(net: GatedNetwork) -> float:
    return net.kernel().item()


COUNTER_EXAMPLES = {
    "kernel-recursion": kernel_recursion,
    "falling-kernel": falling_kernel,
    "turning-point": turning_point,
    "missed-point": _missed_point,
    "kernel-weights": kernel_weights,
    "direction-expansion": _direction_expansion,
    "without-linear-term": _without_linear_term,
    "pure-catapults": pure_catapults,
    "remainder-sign": _remainder_sign,
    "start-of-w": start_of_w,
    "slightly-above": _slightly_above,
    "after-catapult": after_catapult,
    "units-of-rates": _units_of_rates,
    "half-of-curvature": _half_of_curvature,
}
"""The counter-examples by the names of their claims."""
