"""A run written to a file and read again."""

from __future__ import annotations

from pathlib import Path

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
import xarray as xr

import dynascope as ds

TASK = ds.tasks.Supervised("mse")
OVER = {"seed": [0, 3, 5], "rate": [0.01, 0.1]}


def test_it_is_saved_and_loaded_without_loss(tmp_path, train, same_bits):
    trained = train(40)
    file = trained.save(tmp_path / "mine")
    assert [path.name for path in tmp_path.iterdir()] == ["mine.npz"]
    back = ds.load_trajectory(tmp_path / "mine", like=train(0))
    assert file.name == "mine.npz"
    assert same_bits(trained.state, back.state)
    xr.testing.assert_identical(trained.trace, back.trace)
    assert same_bits(back.resume(steps=60).model, train(100).model)


def test_an_ensemble_is_saved_and_loaded(tmp_path, same_bits, member):
    many = ds.ensemble(member, OVER, steps=20, record=10)
    many.save(tmp_path / "many.npz")
    back = ds.load_trajectory(tmp_path / "many.npz", like=ds.ensemble(member, OVER, steps=0))
    assert same_bits(many.state, back.state)
    assert same_bits(many.resume(steps=20).state, back.resume(steps=20).state)


def test_the_optimizer_may_draw_random_numbers(tmp_path, network, same_bits, data):
    noisy = optax.chain(optax.add_noise(0.1, 0.5, jax.random.key(7)), optax.sgd(0.1))
    run = lambda steps: ds.descend(network(), TASK, noisy, data=data, steps=steps, record=5)  # noqa: E731
    run(10).save(tmp_path / "noisy")
    back = ds.load_trajectory(tmp_path / "noisy", like=run(0)).resume(steps=10)
    assert same_bits(back.model, run(20).model)


def add_bomb(file: Path) -> None:
    """Add an array that is a thousand times larger than its part of the file."""
    with np.load(file) as kept:
        arrays = dict(kept)
    np.savez_compressed(file, **arrays, more=np.zeros(10_000_000))  # pyright: ignore[reportArgumentType]


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (add_bomb, "is damaged, or not a trajectory"),
        (lambda file: file.write_bytes(file.read_bytes()[:-40]), "is damaged, or not a trajectory"),
        (lambda file: file.write_bytes(b"PK"), "is damaged, or not a trajectory"),
        (lambda file: file.unlink(), "there is no trajectory"),
    ],
)
def test_a_damaged_file_is_one_line(tmp_path, damage, message, train):
    trained = train(5)
    damage(trained.save(tmp_path / "mine"))
    with pytest.raises((ValueError, FileNotFoundError), match=message):
        ds.load_trajectory(tmp_path / "mine", like=trained)


def test_a_file_of_another_call_is_refused(tmp_path, network, train, data):
    train(5).save(tmp_path / "mine")
    with pytest.raises(ValueError, match="belongs to another call"):
        ds.load_trajectory(tmp_path / "mine", like=ds.descend(network(), TASK, optax.sgd(0.1), data=data, steps=0))
    wider = eqx.nn.MLP(3, 1, 9, 1, activation=jax.nn.tanh, key=jax.random.key(0))
    like = ds.descend(wider, TASK, optax.adam(0.1), data=data, batch=8, key=jax.random.key(2), steps=0)
    with pytest.raises(ValueError, match="belongs to another call"):
        ds.load_trajectory(tmp_path / "mine", like=like)


def test_the_usual_cadence_survives_a_file(tmp_path):
    def run(steps):
        return ds.iterate(lambda x: x + 1, jnp.zeros(()), steps=steps)

    run(4000).save(tmp_path / "long")
    back = ds.load_trajectory(tmp_path / "long", like=run(0)).resume(steps=100)
    assert back.trace.step.values[-3:].tolist() == [4092, 4096, 4100]


def test_a_file_of_other_data_or_members_is_refused(tmp_path, train, member, data):
    train(5).save(tmp_path / "mine")
    with pytest.raises(ValueError, match="the data, the key or the settings"):
        ds.load_trajectory(tmp_path / "mine", like=train(0, data=(data[0][:16], data[1][:16])))
    with pytest.raises(ValueError, match="the data, the key or the settings"):
        ds.load_trajectory(tmp_path / "mine", like=train(0, key=jax.random.key(9)))
    ds.ensemble(member, OVER, steps=2).save(tmp_path / "many")
    other = ds.ensemble(member, {"seed": [1, 3, 5], "rate": [0.01, 0.1]}, steps=0)
    with pytest.raises(ValueError, match="the members differ"):
        ds.load_trajectory(tmp_path / "many", like=other)
    with pytest.raises(ValueError, match="the members differ"):
        ds.load_trajectory(tmp_path / "mine", like=other)


def test_short_floats_are_kept_bit_by_bit(tmp_path, same_bits):
    run = lambda steps: ds.descend(jnp.ones(3, jnp.bfloat16), lambda w: jnp.sum(w**2), optax.sgd(0.1), steps=steps)  # noqa: E731
    run(3).save(tmp_path / "short")
    assert same_bits(ds.load_trajectory(tmp_path / "short", like=run(0)).resume(steps=3).model, run(6).model)


def mlp(activation=jax.nn.tanh, seed: int = 0):
    return eqx.nn.MLP(3, 1, 8, 1, activation=activation, key=jax.random.key(seed))


@pytest.mark.parametrize(
    "other",
    [
        {"model": mlp(jax.nn.relu)},
        {"model": mlp(seed=1)},
        {"task": lambda model, batch: jnp.mean(jnp.abs(jax.vmap(model)(batch[0]) - batch[1]))},
        {"optimizer": optax.adam(0.2)},
        {"batch": 4},
    ],
    ids=["activation", "start", "loss", "learning rate", "batch"],
)
def test_a_file_of_another_rule_is_refused(tmp_path, data, other):
    call = {"model": mlp(), "task": TASK, "optimizer": optax.adam(0.1), "batch": 8, "key": jax.random.key(2)}
    ds.descend(**call, data=data, steps=5).save(tmp_path / "mine")
    assert ds.load_trajectory(tmp_path / "mine", like=ds.descend(**call, data=data, steps=0)).at == 5
    with pytest.raises(ValueError, match="belongs to another call"):
        ds.load_trajectory(tmp_path / "mine", like=ds.descend(**{**call, **other}, data=data, steps=0))


def test_a_flow_of_another_rule_is_refused(tmp_path):
    def run(rate, times):
        return ds.flow(jnp.ones(2), lambda w: rate * jnp.sum(w**2), times=times)

    run(1.0, [0.0, 1.0]).save(tmp_path / "mine")
    assert ds.load_trajectory(tmp_path / "mine", like=run(1.0, [0.0])).at == 1
    with pytest.raises(ValueError, match="belongs to another call"):
        ds.load_trajectory(tmp_path / "mine", like=run(2.0, [0.0]))


def test_a_file_of_another_version_of_jax_is_a_warning(tmp_path, train, monkeypatch):
    monkeypatch.setattr(jax, "__version__", "0.9")
    train(5).save(tmp_path / "mine")
    monkeypatch.undo()
    with pytest.warns(UserWarning, match="cannot be compared"):
        ds.load_trajectory(tmp_path / "mine", like=train(0))


def test_a_file_of_another_machine_may_differ_in_the_last_digits_of_its_start(tmp_path, data):
    def run(scale: float, steps: int):
        model = jax.tree.map(lambda leaf: leaf * scale if eqx.is_array(leaf) else leaf, mlp())
        return ds.descend(model, TASK, optax.adam(0.1), data=data, steps=steps)

    run(1.0, 5).save(tmp_path / "mine")
    assert ds.load_trajectory(tmp_path / "mine", like=run(1 + 1e-6, 0)).at == 5
    with pytest.raises(ValueError, match="belongs to another call"):
        ds.load_trajectory(tmp_path / "mine", like=run(1.01, 0))


def test_a_file_of_another_version_of_dynascope_is_a_warning(tmp_path, train, monkeypatch):
    monkeypatch.setattr("dynascope.lab.trajectories.__version__", "0.9")
    train(5).save(tmp_path / "mine")
    monkeypatch.undo()
    with pytest.warns(UserWarning, match=r"dynascope 0\.9 with JAX"):
        ds.load_trajectory(tmp_path / "mine", like=train(0))
