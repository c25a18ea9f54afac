"""What a run gives back: the trained model, a state to go on from, a file; and when it stops by itself."""

from __future__ import annotations

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
import xarray as xr

import dynascope as ds

X = jax.random.normal(jax.random.key(0), (32, 3))
Y = jnp.sin(X[:, 0]) + X[:, 1]
TASK = ds.tasks.Supervised("mse")


def network(seed: int = 1) -> eqx.nn.MLP:
    return eqx.nn.MLP(3, 1, 8, 1, activation=jax.nn.tanh, key=jax.random.key(seed))


def train(steps: int, **options):
    probes = {"loss": ds.probes.loss(), "sharpness": ds.probes.sharpness(every=20)}
    usual = {"data": (X, Y), "batch": 8, "key": jax.random.key(2), "record": 5, "probes": probes}
    return ds.descend(network(), TASK, optax.adam(0.01), steps=steps, **{**usual, **options})


def same_bits(one, other) -> bool:
    leaves = zip(jax.tree.leaves(one), jax.tree.leaves(other), strict=True)
    return all(np.array_equal(np.asarray(a), np.asarray(b)) for a, b in leaves if eqx.is_array_like(a))


def member(seed, rate):
    model = network(0)
    drawn = jax.tree.map(
        lambda leaf: jax.random.normal(jax.random.key(seed), leaf.shape) * 0.3 if eqx.is_inexact_array(leaf) else leaf,
        model,
    )
    key = jax.random.key(seed)
    return ds.Descent(drawn, TASK, optax.adam(rate), data=(X, Y), batch=8, key=key)


OVER = {"seed": [0, 3, 5], "rate": [0.01, 0.1]}


def test_the_trained_model_comes_back_as_the_type_given():
    trained = train(40)
    assert type(trained.model) is eqx.nn.MLP
    assert trained.model.activation is network().activation or callable(trained.model.activation)
    np.testing.assert_allclose(TASK.loss(trained.model, (X, Y)), trained.trace.loss[-1], rtol=1e-6)


def test_it_equals_a_loop_by_hand():
    model, optimizer = network(), optax.adam(0.01)
    state = optimizer.init(eqx.filter(model, eqx.is_inexact_array))
    for _ in range(10):
        gradient = eqx.filter_grad(TASK.loss)(model, (X, Y))
        with jax.numpy_dtype_promotion("standard"):
            updates, state = optimizer.update(gradient, state)
        model = eqx.apply_updates(model, updates)
    trained = ds.descend(network(), TASK, optimizer, data=(X, Y), steps=10)
    for mine, theirs in zip(jax.tree.leaves(trained.model), jax.tree.leaves(model), strict=True):
        if eqx.is_array(mine):
            np.testing.assert_allclose(mine, theirs, atol=1e-6)


def test_a_resumed_descent_has_the_bits_of_one_never_cut():
    whole, parts = train(100), train(40).resume(steps=20).resume(steps=40)
    assert same_bits(whole.state, parts.state)
    assert same_bits(whole.model, parts.model)
    xr.testing.assert_identical(whole.trace.drop_attrs(), parts.trace.drop_attrs())


def test_a_cadence_of_its_own_goes_on_in_step():
    parts = train(40, probes={"loss": ds.probes.loss(), "far": ds.probes.displacement(every=30)}).resume(steps=60)
    assert parts.trace.far_step.values.tolist() == [0, 30, 40, 60, 90, 100]


def test_a_resumed_ensemble_has_the_bits_of_one_never_cut():
    whole = ds.ensemble(member, OVER, steps=60, record=10)
    parts = ds.ensemble(member, OVER, steps=20, record=10).resume(steps=40)
    assert same_bits(whole.state, parts.state)
    xr.testing.assert_identical(whole.trace.drop_attrs(), parts.trace.drop_attrs())


@pytest.mark.parametrize("width", [1, 4, None])
def test_a_member_is_the_run_of_its_own_setting(width):
    many = ds.ensemble(member, OVER, steps=20, record=10, width=width)
    one = many.member(seed=3, rate=0.1)
    alone = ds.ensemble(member, {"seed": [3], "rate": [0.1]}, steps=20, record=10).member(seed=3, rate=0.1)
    for mine, theirs in zip(jax.tree.leaves(one.model), jax.tree.leaves(alone.model), strict=True):
        if eqx.is_array(mine):
            np.testing.assert_allclose(mine, theirs, atol=1e-5)
    np.testing.assert_allclose(TASK.loss(one.model, (X, Y)), one.trace.loss[-1], rtol=1e-5)
    longer = one.resume(steps=20)
    assert longer.trace.step.values.tolist() == [0, 10, 20, 30, 40]


def test_a_flow_a_map_and_a_central_flow_go_on():
    bowl = lambda x: jnp.sum(jnp.array([1.0, 4.0]) * x**2)  # noqa: E731
    start = jnp.array([1.0, 1.0])
    whole = ds.flow(start, bowl, times=[0.0, 0.5, 1.0, 2.0])
    parts = ds.flow(start, bowl, times=[0.0, 0.5]).resume(times=[1.0, 2.0])
    assert same_bits(whole.model, parts.model)
    xr.testing.assert_identical(whole.trace.drop_attrs(), parts.trace.drop_attrs())
    halves = ds.iterate(lambda x: x / 2, jnp.asarray(8.0), steps=2, record=1).resume(steps=1)
    assert halves.trace.state.values.tolist() == [8.0, 4.0, 2.0, 1.0]
    assert float(halves.model) == 1.0
    central = ds.central_flow(start, bowl, 0.1, steps=8, record=4)
    assert same_bits(central.state, ds.central_flow(start, bowl, 0.1, steps=4, record=4).resume(steps=4).state)


def test_it_is_saved_and_loaded_without_loss(tmp_path):
    trained = train(40)
    file = trained.save(tmp_path / "mine")
    assert [path.name for path in tmp_path.iterdir()] == ["mine.npz"]
    back = ds.load_trajectory(tmp_path / "mine", like=train(0))
    assert file.name == "mine.npz"
    assert same_bits(trained.state, back.state)
    xr.testing.assert_identical(trained.trace, back.trace)
    assert same_bits(back.resume(steps=60).model, train(100).model)


def test_an_ensemble_is_saved_and_loaded(tmp_path):
    many = ds.ensemble(member, OVER, steps=20, record=10)
    many.save(tmp_path / "many.npz")
    back = ds.load_trajectory(tmp_path / "many.npz", like=ds.ensemble(member, OVER, steps=0))
    assert same_bits(many.state, back.state)
    assert same_bits(many.resume(steps=20).state, back.resume(steps=20).state)


def test_the_optimizer_may_draw_random_numbers(tmp_path):
    noisy = optax.chain(optax.add_noise(0.1, 0.5, jax.random.key(7)), optax.sgd(0.1))
    run = lambda steps: ds.descend(network(), TASK, noisy, data=(X, Y), steps=steps, record=5)  # noqa: E731
    run(10).save(tmp_path / "noisy")
    back = ds.load_trajectory(tmp_path / "noisy", like=run(0)).resume(steps=10)
    assert same_bits(back.model, run(20).model)


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (lambda file: file.write_bytes(file.read_bytes()[:-40]), "is damaged, or no trajectory"),
        (lambda file: file.write_bytes(b"PK"), "is damaged, or no trajectory"),
        (lambda file: file.unlink(), "there is no trajectory"),
    ],
)
def test_a_damaged_file_is_one_line(tmp_path, damage, message):
    trained = train(5)
    damage(trained.save(tmp_path / "mine"))
    with pytest.raises((ValueError, FileNotFoundError), match=message):
        ds.load_trajectory(tmp_path / "mine", like=trained)


def test_a_file_of_another_call_is_refused(tmp_path):
    train(5).save(tmp_path / "mine")
    with pytest.raises(ValueError, match="of another call"):
        ds.load_trajectory(tmp_path / "mine", like=ds.descend(network(), TASK, optax.sgd(0.1), data=(X, Y), steps=0))
    wider = eqx.nn.MLP(3, 1, 9, 1, activation=jax.nn.tanh, key=jax.random.key(0))
    like = ds.descend(wider, TASK, optax.adam(0.1), data=(X, Y), batch=8, key=jax.random.key(2), steps=0)
    with pytest.raises(ValueError, match="of another call"):
        ds.load_trajectory(tmp_path / "mine", like=like)


def test_it_stops_when_the_condition_is_met():
    trained = ds.descend(
        network(), TASK, optax.adam(0.01), data=(X, Y), steps=2000, record=10, stop=lambda snap: snap.loss() < 0.1
    )
    stopped = int(trained.trace.stopped_at)
    assert 0 < stopped < 2000
    assert trained.trace.step[-1] == stopped == trained.at
    assert trained.trace.loss[-1] < 0.1
    assert (trained.trace.loss[:-1] >= 0.1).all()
    never = ds.descend(network(), TASK, optax.sgd(0.0), data=(X, Y), steps=20, stop=lambda snap: snap.loss() < 0)
    assert int(never.trace.stopped_at) == -1
    assert never.trace.step[-1] == 20


def test_a_condition_may_have_its_own_cadence():
    every = ds.probes.probe(lambda snapshot: snapshot.step >= 7, every=3)
    trained = ds.iterate(lambda x: x, jnp.zeros(()), steps=100, record=50, stop=every)
    assert int(trained.trace.stopped_at) == 9


def test_members_stop_one_by_one():
    def decaying(rate):
        return ds.Map(lambda x: rate * x, jnp.ones(()), loss=lambda x: x)

    many = ds.ensemble(
        decaying, {"rate": [0.5, 0.9, 1.0]}, steps=50, record=1, stop=lambda snapshot: snapshot.loss() < 0.1
    )
    assert many.trace.stopped_at.values.tolist() == [4, 22, -1]
    assert np.isfinite(many.trace.state).sum("step").values.tolist() == [5, 23, 51]
    quick = many.member(rate=0.5)
    assert quick.trace.sizes["step"] == 5
    assert float(quick.model) == 0.5**4
    with pytest.raises(ValueError, match="one by one"):
        many.resume(steps=5)


def test_states_may_be_declined():
    many = ds.ensemble(member, OVER, steps=5, keep=False)
    assert many.state is None
    with pytest.raises(ValueError, match="keep=True"):
        many.member(seed=3, rate=0.1)


def test_wrong_use_is_one_sentence():
    many = ds.ensemble(member, OVER, steps=5)
    for call, message in [
        (lambda: many.model, r"many models; take one with member\(seed=..., rate=...\)"),
        (lambda: many.member(seed=4, rate=0.1), r"seed must be one of \[0, 3, 5\]; got 4"),
        (lambda: many.member(seed=3), "one label for each dimension"),
        (lambda: train(5).resume(steps=0), "steps must be an integer, at least 1"),
        (lambda: train(5).resume(), "give steps="),
        (lambda: train(5).resume(steps=5, record=[3]), "record must hold steps after 5"),
        (lambda: train(5, stop=lambda snapshot: 3), "stop must return one JAX boolean"),
    ]:
        with pytest.raises((ValueError, TypeError), match=message):
            call()


def test_weight_averages_and_schedules_come_from_optax():
    rates = optax.cosine_decay_schedule(0.1, 50)
    trained = ds.descend(
        network(), TASK, optax.chain(optax.sgd(rates), optax.ema(0.9)), data=(X, Y), steps=50, record=50
    )
    assert trained.trace.loss[-1] < trained.trace.loss[0]


def test_a_member_may_make_its_own_task():
    def with_its_own_loss(seed):
        task = ds.tasks.Supervised(lambda outputs, targets: jnp.mean(jnp.abs(outputs[:, 0] - targets)))
        return ds.Descent(network(), task, optax.sgd(0.1), data=(X, Y + seed.astype(Y.dtype)))

    many = ds.ensemble(with_its_own_loss, {"seed": [0, 1]}, steps=5)
    assert (many.trace.loss.isel(step=-1) < many.trace.loss.isel(step=0)).all()


def test_a_run_of_no_steps_goes_on_like_a_new_one():
    assert train(0).resume(steps=10).trace.step.values.tolist() == [0, 5, 10]
    begun = ds.flow(jnp.ones(2), lambda x: jnp.sum(x**2), times=[0.0]).resume(times=[1.0])
    assert begun.trace.time.values.tolist() == [0.0, 1.0]


def test_the_usual_cadence_survives_a_file(tmp_path):
    def run(steps):
        return ds.iterate(lambda x: x + 1, jnp.zeros(()), steps=steps)

    run(4000).save(tmp_path / "long")
    back = ds.load_trajectory(tmp_path / "long", like=run(0)).resume(steps=100)
    assert back.trace.step.values[-3:].tolist() == [4092, 4096, 4100]


def test_a_file_of_other_data_or_members_is_refused(tmp_path):
    train(5).save(tmp_path / "mine")
    with pytest.raises(ValueError, match="the data, the key or the settings"):
        ds.load_trajectory(tmp_path / "mine", like=train(0, data=(X[:16], Y[:16])))
    with pytest.raises(ValueError, match="the data, the key or the settings"):
        ds.load_trajectory(tmp_path / "mine", like=train(0, key=jax.random.key(9)))
    ds.ensemble(member, OVER, steps=2).save(tmp_path / "many")
    other = ds.ensemble(member, {"seed": [1, 3, 5], "rate": [0.01, 0.1]}, steps=0)
    with pytest.raises(ValueError, match="the members are others"):
        ds.load_trajectory(tmp_path / "many", like=other)
    with pytest.raises(ValueError, match="the members are others"):
        ds.load_trajectory(tmp_path / "mine", like=other)


def test_a_stopped_run_can_be_resumed_without_its_condition():
    stopped = ds.iterate(lambda x: x + 1, jnp.zeros(()), steps=50, record=5, stop=lambda snap: snap.step >= 10)
    assert stopped.at == 10
    assert stopped.resume(steps=20).at == 15
    assert stopped.resume(steps=20, stop=None).at == 30
    assert stopped.resume(steps=20, stop=lambda snapshot: snapshot.step >= 20).at == 20


def test_slips_in_functions_of_the_user_are_named():
    for call, message in [
        (lambda: train(5, probes={"a": lambda model: model.loss()}), "called with the model"),
        (lambda: train(5, probes={"a": lambda model: float(model.layers[0].weight[0, 0])}), "JAX operations"),
        (lambda: train(5, stop=lambda model: TASK.loss(model, (X, Y)) < 0.1), "called with a snapshot"),
        (lambda: train(5, stop=lambda snapshot: bool(snapshot.loss() < 1)), "turns an array into a Python value"),
        (lambda: ds.descend(network(), TASK, optax.sgd(0.1), data=X, steps=1), r"takes data=\(inputs, targets\)"),
        (lambda: train(5).member(seed=0), "single run"),
        (lambda: ds.ensemble(member, {"seed": 3, "rate": [0.1]}, steps=1), "a list, a range or an array"),
        (lambda: ds.ensemble(lambda rate: whole_run(rate), {"rate": [0.1]}, steps=1), "return ds.Descent"),
    ]:
        with pytest.raises((TypeError, ValueError), match=message):
            call()


def whole_run(rate):
    return ds.descend(network(), TASK, optax.adam(rate), data=(X, Y), steps=2)


def test_labels_that_are_no_classes_are_refused():
    task, net = ds.tasks.Supervised("cross-entropy"), eqx.nn.MLP(3, 2, 8, 1, key=jax.random.key(0))
    for labels in (jnp.where(Y > 0, 1, -1), jnp.where(Y > 0, 1, 2)):
        with pytest.raises(ValueError, match="labels must be integers from 0 to 1; got values from"):
            ds.descend(net, task, optax.sgd(0.1), data=(X, labels), steps=2)
    trained = ds.descend(net, task, optax.adam(0.1), data=(X, (Y > 0).astype(jnp.int32)), steps=60)
    assert trained.trace.loss[-1] < 0.2
    traced = jax.jit(lambda labels: task.loss(net, (X, labels)))(jnp.full(32, -1))
    assert np.isnan(traced)


def test_flows_stop_where_the_clock_says():
    bowl = lambda x: jnp.sum(x**2)  # noqa: E731
    stopped = ds.flow(jnp.ones(2), bowl, times=[0.0, 0.1, 0.7, 0.9], stop=lambda snapshot: snapshot.step > 0.5)
    assert stopped.trace.time.values.tolist() == [0, 0.1, 0.7]
    with pytest.raises(ValueError, match="further apart"):
        ds.flow(jnp.ones(2), bowl, times=[0.0, 1.0, 1.00000001])
    with pytest.raises(ValueError, match="every= is for steps"):
        ds.flow(jnp.ones(2), bowl, times=[0.0, 1.0], probes={"loss": ds.probes.loss(every=2)})
    with jax.enable_x64(True):
        single = ds.flow(jnp.ones(2, jnp.float32), bowl, times=[0.0, 0.5])
    np.testing.assert_allclose(single.trace.loss, 2 * np.exp([0, -2.0]), rtol=1e-4)


def test_short_floats_are_kept_bit_by_bit(tmp_path):
    run = lambda steps: ds.descend(jnp.ones(3, jnp.bfloat16), lambda w: jnp.sum(w**2), optax.sgd(0.1), steps=steps)  # noqa: E731
    run(3).save(tmp_path / "short")
    assert same_bits(ds.load_trajectory(tmp_path / "short", like=run(0)).resume(steps=3).model, run(6).model)


def test_a_run_with_listed_steps_can_be_loaded_and_cut():
    run = lambda steps: ds.iterate(  # noqa: E731
        lambda x: x + 1, jnp.zeros(()), steps=steps, record=[0, 5], probes={"x": lambda x: x}
    )
    assert run(0).trace.step.values.tolist() == [0]
    assert run(5).resume(steps=3).trace.step.values.tolist() == [0, 5, 8]


def test_names_of_dimensions_and_labels_are_checked():
    def steady(inner_step):
        return ds.Map(lambda x: x * 0.5, jnp.ones(()), loss=lambda x: x)

    many = ds.ensemble(steady, {"inner_step": [1.0, 2.0]}, steps=9, record=1, stop=lambda snap: snap.loss() < 0.1)
    assert many.trace.stopped_at.values.tolist() == [4, 4]
    assert np.isnan(many.trace.state.values[:, 5:]).all()
    for wrong in ([1.0, 2.0], True, "a", 1.5):
        with pytest.raises((ValueError, TypeError), match="inner_step"):
            many.member(inner_step=wrong)
    with pytest.raises(ValueError, match="must not be called so"):
        ds.ensemble(lambda step: steady(step), {"step": [1.0]}, steps=1)


def test_a_checkpoint_of_another_start_is_not_taken():
    class Memory(ds.Monitor):
        keep_every = -1.0
        kept: dict = {}

        def restore(self, name):
            return self.kept.get(name)

        def keep(self, name, arrays):
            self.kept[name] = dict(arrays)

    noisy = optax.chain(optax.add_noise(0.1, 0.5, jax.random.key(7)), optax.sgd(0.1))
    losses = []
    for scale in (1.0, 7.0):
        with ds.monitored_by(Memory()):
            losses.append(ds.descend(scale * jnp.ones(2), lambda w: jnp.sum(w**2), noisy, steps=5).trace.loss.values[0])
    assert losses == [2.0, 98.0]
