"""The loop as a kernel, interpreted on a CPU: its numbers are those of the ordinary loop."""

import math

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from jax import lax
from jax.sharding import AbstractDevice, AbstractMesh, use_abstract_mesh

import dynascope as ds
from dynascope.dynamics.backends import kernel, padded
from dynascope.dynamics.backends.kernel import Footprint, Kernel, first_kernel, footprint
from dynascope.dynamics.backends.padded import _erf, padded_shape
from dynascope.dynamics.schedule import Request, make_schedule

TASK = ds.tasks.StructuredIdentity((1.0, 2.0), 0.05, 3)


@pytest.fixture
def interpreted(monkeypatch):
    monkeypatch.setenv("DYNASCOPE_INTERPRET_KERNELS", "1")


def sim(optimizer, **options):
    """A member that trains on shuffled rows; sizes that are no powers of two."""

    def member(seed):
        turn, init, draw, order = jax.random.split(jax.random.key(seed), 4)
        task = ds.tasks.StructuredIdentity((1.0, 2.0), 0.05, 3, rotation=ds.tasks.random_rotation(turn, 3))
        model = ds.models.MLP(3, 2, width=5, key=init, **options)
        probes = {"output": ds.probes.output(task.test_point), "test_loss": task.test_loss}
        data = task.dataset(draw, 10).x
        return ds.Descent(model, task, optimizer, data=data, batch=6, key=order, probes=probes)

    return member


def population(seed):
    return ds.Descent(ds.models.MLP(3, 2, key=jax.random.key(seed)), TASK, optax.sgd(0.1))


def fresh(seed):
    key = jax.random.key(seed)
    return ds.Descent(ds.models.MLP(3, 2, key=key), TASK, optax.sgd(0.1), batch=4, key=key)


def classes(seed):
    x = jax.random.normal(jax.random.key(seed), (12, 4))
    model = ds.models.MLP(4, 2, out=3, width=5, activation="relu", bias=True, key=jax.random.key(seed))
    data = x, jnp.argmax(x[:, :3], axis=1)
    task = ds.tasks.Supervised("cross-entropy")
    return ds.Descent(model, task, optax.adam(0.05), data=data, batch=6, key=jax.random.key(1))


def logistic(seed):
    return ds.Map(lambda x: 3.7 * x * (1 - x), jnp.asarray([0.3, 0.4, 0.5]) + 0.01 * jnp.asarray(seed, float))


def wide(seed):
    """Fewer rows in a batch than units in the layer: products of both orientations."""
    x = jax.random.normal(jax.random.key(seed), (40, 3))
    model = ds.models.MLP(3, 2, out=3, width=40, key=jax.random.key(seed))
    data = x, x[:, ::-1]
    return ds.Descent(model, ds.tasks.Supervised("mse"), optax.sgd(0.1), data=data, batch=20, key=jax.random.key(1))


def deep(seed):
    task = ds.tasks.StructuredIdentity((1.0, 2.0, 3.0), 0.05, 4)
    model = ds.models.MLP(4, 6, key=jax.random.key(seed))
    return ds.Descent(model, task, optax.sgd(0.02), probes={"test_loss": task.test_loss})


def flow(seed):
    """Gradient flow by the classical Runge-Kutta method with a fixed step: a map."""
    velocity = jax.grad(lambda weights: -TASK.population_loss(ds.models.MLP.from_weights(weights)))

    def rule(weights, h=0.05):
        moved = lambda by, slope: jax.tree.map(lambda w, s: w + by * s, weights, slope)  # noqa: E731
        first = velocity(weights)
        second = velocity(moved(h / 2, first))
        third = velocity(moved(h / 2, second))
        fourth = velocity(moved(h, third))
        mean = jax.tree.map(lambda a, b, c, d: (a + 2 * b + 2 * c + d) / 6, first, second, third, fourth)
        return moved(h, mean)

    return ds.Map(
        rule, ds.models.MLP(3, 2, key=jax.random.key(seed)).weights, probes={"first": lambda weights: weights[0]}
    )


MEMBERS = {
    "sgd": sim(optax.sgd(0.1)),
    "a wide layer": wide,
    "momentum, ReLU, biases": sim(optax.sgd(0.05, momentum=0.9), activation="relu", bias=True),
    "Adam, tanh": sim(optax.adam(0.02), activation="tanh"),
    "AdamW, GELU, biases": sim(optax.adamw(0.02), activation="gelu", bias=True),
    "population": population,
    "fresh samples": fresh,
    "cross-entropy": classes,
    "a map": logistic,
    "a flow in fixed steps": flow,
}
SETTINGS = {**MEMBERS, "a deep network": deep}
CHEAP = ("sgd", "a wide layer", "population", "cross-entropy", "a map")


@pytest.mark.parametrize(
    "name", [name if name in CHEAP else pytest.param(name, marks=pytest.mark.long) for name in MEMBERS]
)
def test_a_kernel_takes_the_steps_of_the_ordinary_loop(name, interpreted):
    run = {"steps": 11, "record": 4}
    with jax.default_matmul_precision("highest"):
        chip, loop = (ds.ensemble(MEMBERS[name], {"seed": [0, 1]}, on_chip=on, **run) for on in (True, False))
    assert chip.trace.attrs["loop"].startswith("on chip")
    assert loop.trace.attrs["loop"].startswith("ordinary")
    for one, other in zip(jax.tree.leaves(chip.state), jax.tree.leaves(loop.state), strict=True):
        np.testing.assert_allclose(one, other, rtol=2e-5, atol=2e-6)
    for variable in loop.trace.data_vars:
        np.testing.assert_allclose(chip.trace[variable], loop.trace[variable], rtol=2e-5, atol=1e-6)


@pytest.mark.long
@pytest.mark.parametrize("name", SETTINGS)
def test_after_300_steps_the_traces_are_those_of_the_ordinary_loop(name, interpreted):
    run = {"steps": 300, "record": 20}
    with jax.default_matmul_precision("highest"):
        chip, loop = (ds.ensemble(SETTINGS[name], {"seed": [0, 1]}, on_chip=on, **run).trace for on in (True, False))
    for variable in loop.data_vars:
        largest = float(np.abs(loop[variable]).max())
        np.testing.assert_allclose(chip[variable], loop[variable], rtol=1e-5, atol=1e-6 * largest)


@pytest.mark.parametrize("name", ["sgd", "cross-entropy"])
def test_the_kernel_is_given_the_numbers_of_rows_and_reads_them_itself(name, interpreted):
    process = MEMBERS[name](0)
    found = footprint(process, process.start())
    assert found.drawn == 16 * 4  # six numbers, padded to sixteen
    larger = eqx.tree_at(lambda each: each.objective.data, process, replace_fn=rows_of(100_000))
    assert footprint(larger, larger.start()).drawn == found.drawn


def rows_of(count):
    return lambda data: jax.tree.map(lambda leaf: jnp.zeros((count, *leaf.shape[1:]), leaf.dtype), data)


@pytest.mark.long
def test_a_run_on_the_chip_resumes_to_the_same_bits(interpreted):
    member = sim(optax.sgd(0.1))
    whole = ds.ensemble(member, {"seed": [0, 1]}, steps=9, record=3, on_chip=True)
    parts = ds.ensemble(member, {"seed": [0, 1]}, steps=6, record=3, on_chip=True).resume(steps=3)
    for one, other in zip(jax.tree.leaves(parts.state), jax.tree.leaves(whole.state), strict=True):
        np.testing.assert_array_equal(one, other)


def test_a_run_on_the_chip_diverges_where_the_ordinary_loop_does(interpreted):
    def wild(seed):
        return ds.Descent(ds.models.MLP(3, 2, key=jax.random.key(seed)), TASK, optax.sgd(1e6))

    chip, loop = (ds.ensemble(wild, {"seed": [0]}, steps=9, record=3, on_chip=on).trace for on in (True, False))
    assert chip.diverged_at.item() == loop.diverged_at.item() >= 0


@pytest.mark.filterwarnings("ignore:The Pallas Triton backend is deprecated")
@pytest.mark.parametrize("precision", [None, "highest", "bfloat16"])
def test_the_kernel_is_lowered_for_a_gpu(precision):
    def run(seed):
        process = MEMBERS["AdamW, GELU, biases"](seed)
        return Kernel(5, warps=4, split=True).advance(process, process.start(), jnp.int32(0), jnp.int32(5))

    gpu = AbstractDevice(device_kind="NVIDIA H200", num_cores=132, platform="gpu")
    with jax.default_matmul_precision(precision), use_abstract_mesh(AbstractMesh((), (), abstract_device=gpu)):
        lowered = jax.jit(jax.vmap(run)).trace(jnp.arange(2)).lower(lowering_platforms=("cuda",))
    assert "triton" in lowered.as_text()


def sorted_loss(model):
    return jnp.sum(jnp.sort(model.weights[0], axis=0) ** 3)


@pytest.mark.parametrize(
    ("member", "reason"),
    [
        (
            lambda seed: ds.Descent(ds.models.MLP(3, 1, key=jax.random.key(seed)), sorted_loss, optax.sgd(0.1)),
            "has no sort",
        ),
        (
            lambda seed: ds.Descent(
                ds.models.MLP(300, 2, key=jax.random.key(seed)), lambda m: jnp.sum(m.weights[0]), optax.sgd(0.1)
            ),
            "KiB",
        ),
        (lambda seed: ds.Flow(ds.models.MLP(3, 1, key=jax.random.key(seed)), TASK), "Flow does not move in steps"),
    ],
    ids=["operation", "size", "flow"],
)
def test_what_does_not_fit_runs_in_the_ordinary_loop_and_says_why(member, reason, interpreted):
    run = {"times": [0.1]} if "Flow" in reason else {"steps": 1, "record": 1}
    trace = ds.ensemble(member, {"seed": [0]}, **run).trace
    assert trace.attrs["loop"].startswith("ordinary")
    assert reason in trace.attrs["loop"]
    with pytest.raises(ValueError, match=f"on_chip: the members cannot run on a chip: .*{reason}"):
        ds.ensemble(member, {"seed": [0]}, on_chip=True, **run)


@pytest.mark.skipif(jax.default_backend() != "cpu", reason="there is a GPU")
def test_without_a_gpu_the_ordinary_loop_runs():
    trace = ds.ensemble(logistic, {"seed": [0, 1]}, steps=2, record=1).trace
    assert trace.attrs["loop"] == "ordinary: it needs an NVIDIA GPU"


@pytest.mark.parametrize(("parts", "bits"), [(1, 8), (2, 15), (3, 22)])
def test_products_of_more_parts_have_more_bits(parts, bits):
    left, right = np.random.default_rng(0).normal(size=(2, 64, 64)).astype(np.float32)
    exact = left.astype(np.float64) @ right.astype(np.float64)
    size = np.abs(left).astype(np.float64) @ np.abs(right)
    found = kernel.split_product(jnp.asarray(left), jnp.asarray(right), parts)
    error = np.max(np.abs(found - exact) / size)
    assert 2.0 ** -(bits + 4) < error < 2.0**-bits


def moved(rule, start=(0.3, 0.4, 0.5), **options):
    """The states of a map after three steps, by the kernel (where it fits) and by the ordinary loop; and the former's
    trace."""
    member = lambda seed: ds.Map(rule, jnp.asarray(start) + 0 * jnp.asarray(seed, float))  # noqa: E731
    chip, loop = (
        ds.ensemble(member, {"seed": [0, 1]}, steps=3, record=1, on_chip=on).trace
        for on in (options.get("on_chip", True), False)
    )
    np.testing.assert_allclose(chip.state, loop.state, rtol=2e-5, atol=1e-7)
    np.testing.assert_array_equal(chip.diverged_at, loop.diverged_at)
    return chip


RULES = {
    "the tail of erfc": lambda x: 1e4 * lax.erfc(3 + 0.1 * x),
    "erfc on the left": lambda x: lax.erfc(-x),
    "erf": lax.erf,
    "a maximum of booleans": lambda x: jnp.where(jnp.max(x > 0.4), 0.5 * x, x),
    "a maximum": lambda x: jnp.max(x) - 0.1 * x,
    "all": lambda x: jnp.where(jnp.all(x > 0.2), 0.9, 1.1) * x,
    "a product with a vector": lambda x: jnp.outer(x, x) @ x,
    "a product at a precision of its own": lambda x: jnp.matmul(
        jnp.outer(x, x) + jnp.eye(3), jnp.outer(x, x), precision=lax.DotAlgorithmPreset.F32_F32_F32
    )[0],
}


@pytest.mark.parametrize("name", RULES)
def test_operations_are_those_of_the_ordinary_loop(name, interpreted):
    moved(RULES[name], on_chip=None if "precision" in name else True)


TABLE = jnp.asarray([1.0, 0.9, 0.8])
REFUSED = {
    "a rounding": (lambda x: lax.reduce_precision(1.01 * x, 5, 2), "reduce_precision"),
    "a reduction of one's own": (lambda x: x + lax.reduce(x, 0.0, lambda a, b: a + b, (0,)), "reduce"),
    "an array that a compiled function holds": (jax.jit(lambda x: x * TABLE), "arrays that a compiled function holds"),
    "a sort": (lambda x: jnp.sort(x)[::-1], "sort"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_the_kernel_cannot_do_runs_in_the_ordinary_loop_and_is_named(name, interpreted):
    rule, said = REFUSED[name]
    assert moved(rule, on_chip=None).attrs["loop"] == f"ordinary: the kernel has no {said}"


def test_a_leaf_that_is_handed_on_to_another_arrives(interpreted):
    rule = lambda state: {"a": state["b"], "b": state["b"], "c": state["c"] + 1}  # noqa: E731
    start = {"a": jnp.asarray(1), "b": jnp.asarray(2), "c": jnp.asarray(0)}
    member = lambda seed: ds.Map(rule, {**start, "c": start["c"] + seed})  # noqa: E731
    chip, loop = (ds.ensemble(member, {"seed": [0, 1]}, steps=3, record=1, on_chip=on).trace for on in (True, False))
    for name in start:
        np.testing.assert_array_equal(chip[name], loop[name])


def test_a_nan_is_kept_although_the_kernel_language_passes_over_it(monkeypatch):
    x = jnp.asarray([math.nan, -1.0, 1.0])
    lost = {"max": jnp.fmax(x, 0.0), "min": jnp.fmin(x, 0.0), "clamp": jnp.asarray([0.0, 0.0, 1.0])}
    for name, found in lost.items():
        given = (lambda x: [0.0, x, 1.0]) if name == "clamp" else (lambda x: [x, np.float32(0)])
        kept = jax.jit(lambda x, name=name, found=found, given=given: padded._with_nan(name, found, given(x)))(x)
        np.testing.assert_array_equal(kept, [math.nan, *found[1:]])
    monkeypatch.setattr(jnp, "max", jnp.nanmax)
    assert np.isnan(padded._reduce("reduce_max", x, (3,), (0,)))
    assert padded._reduce("reduce_max", x[1:], (2,), (0,)) == 1


def test_a_kernel_takes_the_steps_of_a_usual_interval_also_after_a_resume():
    def made(steps, record, since=None):
        schedule = make_schedule(Request(steps, record), "step", {"x": ds.probes.loss()}, stop=None, since=since)
        return first_kernel(Footprint(size=100, drawn=4), schedule, 8, required=False, interpret=False)

    fresh, later = made(100, 10), made(1100, 10, since=1000)
    assert fresh == later
    assert (later.steps, later.whole) == (10, True)
    uneven = made(1000, [0, 1, 2, 4, 8, 1000])
    assert (uneven.steps, uneven.whole) == (167, False)


def test_sizes_are_padded_to_powers_of_two():
    assert padded_shape((1, 2, 16, 17, 300)) == (1, 16, 16, 32, 512)


def test_the_error_function_is_right_to_float32():
    x = np.linspace(-6, 6, 2001, dtype=np.float32)
    np.testing.assert_allclose(_erf(jnp.asarray(x)), jax.scipy.special.erf(x), atol=1e-6)
