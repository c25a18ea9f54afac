"""Images to classes: preparation, augmentation inside the step, and the loss."""

import jax
import jax.numpy as jnp
import numpy as np
import optax

import dynascope as ds
from dynascope.tasks import AugmentedTask
from dynascope.tasks.classification import Classification, Labeled, classification


def batch(count=6, side=5):
    x = jax.random.randint(jax.random.key(0), (count, side, side, 3), 0, 256).astype(jnp.uint8)
    return Labeled(x, jnp.arange(count, dtype=jnp.int32) % 3)


def test_images_are_brought_to_mean_zero_and_deviation_one_per_channel():
    data = batch(40)
    prepared = classification(np.asarray(data.x)).prepare(data.x)
    np.testing.assert_allclose(prepared.mean(axis=(0, 1, 2)), 0, atol=1e-5)
    np.testing.assert_allclose(prepared.std(axis=(0, 1, 2)), 1, rtol=1e-5)


def test_the_loss_is_the_mean_cross_entropy():
    task = Classification(jnp.zeros(3), jnp.ones(3))
    table = jnp.log(jnp.array([0.5, 0.3, 0.2]))
    loss = task.loss(lambda image: table + image.sum(), batch(6))
    np.testing.assert_allclose(loss, -np.mean(np.log([0.5, 0.3, 0.2])), rtol=1e-5)


def test_accuracy_does_not_depend_on_the_chunks():
    task, data = Classification(jnp.zeros(3), jnp.ones(3)), batch(7)
    model = lambda image: jnp.stack([image[0, 0, 0], image[1, 0, 0], image[2, 0, 0]])  # noqa: E731
    whole, chunks = (float(task.accuracy(model, data, chunk)) for chunk in (7, 3))
    assert whole == chunks
    right = np.argmax(np.asarray(data.x)[:, :3, 0, 0], axis=1) == np.asarray(data.y)
    np.testing.assert_allclose(whole, right.mean(), rtol=1e-6)


def test_every_crop_is_a_window_of_the_padded_image_and_some_are_mirrored():
    task, data = Classification(jnp.zeros(3), jnp.ones(3), pad=2, flip=True), batch(50)
    out = np.asarray(task.augment(jax.random.key(1), data).x)
    wide = np.pad(np.asarray(task.prepare(data.x)), ((0, 0), (2, 2), (2, 2), (0, 0)))
    corners, mirrored = set(), 0
    for image, source in zip(out, wide, strict=True):
        windows = {(i, j): source[i : i + 5, j : j + 5] for i in range(5) for j in range(5)}
        plain = [at for at, window in windows.items() if np.allclose(window, image)]
        turned = [at for at, window in windows.items() if np.allclose(window[:, ::-1], image)]
        assert len(plain) + len(turned) == 1
        corners.update(plain, turned)
        mirrored += len(turned)
    assert len(corners) > 10
    assert 10 < mirrored < 40
    other = task.augment(jax.random.key(2), data).x
    assert not np.array_equal(out, other)
    np.testing.assert_array_equal(out, task.augment(jax.random.key(1), data).x)


def test_a_descent_augments_every_batch_anew_from_its_own_key():
    class Shifted(AugmentedTask):
        """The loss is linear in the data, so that a step moves the weight by what the batch held."""

        def augment(self, key, rows):
            return rows + jax.random.uniform(key)

        def loss(self, weight, rows):
            return -jnp.mean(rows) * weight

    def path(seed):
        return ds.descend(
            jnp.zeros(()), Shifted(), optax.sgd(1.0), steps=6, record=1, data=jnp.zeros((4, 1)), batch=2,
            key=jax.random.key(seed), probes={"weight": lambda weight: weight},
        ).trace.weight.values  # fmt: skip

    moves = np.diff(path(0))
    assert len(np.unique(moves)) == 6
    assert (moves > 0).all()
    assert (moves < 1).all()
    np.testing.assert_array_equal(path(0), path(0))
    assert not np.allclose(path(0), path(1))
