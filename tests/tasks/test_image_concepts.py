"""The pictures of concepts: their means, conditions and signals, and what is read off them."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.ndimage import gaussian_filter

from dynascope.tasks.concept_labels import ConceptLabels
from dynascope.tasks.image_concepts import ImageConcepts
from dynascope.tasks.image_reading import read_concepts

KEY = jax.random.key(0)


def test_the_prompts_of_the_paper_are_size_and_color():
    process = ImageConcepts(0.4)
    wanted = [[0.7, 0.7, 0.3, 0.3], [0.3, 0.7, 0.3, 0.3], [0.7, 0.3, 0.3, 0.7], [0.3, 0.3, 0.3, 0.7]]
    assert np.allclose(process.prompts(process.classes), wanted)
    assert process.condition_size == 4
    assert process.training_classes.tolist() == [[0, 0], [0, 1], [1, 0]]


def test_the_published_conditions_are_eleven_numbers_of_which_unused_ones_are_zero():
    process = ImageConcepts(0.4, conditioning="all")
    prompt = np.asarray(process.prompts([[1, 1]]))[0]
    assert np.allclose(prompt, [0, 0, 0, 0, 0.3, 0.3, 0.7, 0.3, 0, 0, 0])


def test_three_concepts_train_on_four_corners_of_the_cube():
    process = ImageConcepts(concepts=("size", "shape", "color"))
    assert process.training_classes.tolist() == [[0, 0, 0], [0, 0, 1], [0, 1, 0], [1, 0, 0]]
    assert process.condition_size == 6


def test_a_mask_is_the_blurred_disk():
    process = ImageConcepts(pixels=20)
    axis = np.linspace(-1, 1, 20)
    disk = (axis[:, None] ** 2 + axis[None, :] ** 2 < 0.7**2).astype(float)
    found = process.masks(process.mean_scenes([[0, 0]]))[0]
    assert np.allclose(found, gaussian_filter(disk, 1.0, mode="reflect"), atol=1e-5)


def test_a_triangle_has_the_area_of_the_disk():
    process = ImageConcepts(pixels=201, concepts=("shape",), mean_size=0.5, size_separation=0, blur=0)
    disk, triangle = np.asarray(process.masks(process.mean_scenes([[0], [1]]))).mean((1, 2))
    assert triangle == pytest.approx(disk, rel=0.01)


def test_scenes_spread_around_their_class_as_they_should():
    process = ImageConcepts(0.4)
    scenes = process.scenes(KEY, np.zeros((4000, 2), int))
    assert np.allclose(np.mean(scenes.color, axis=0), [0.7, 0.3, 0.3], atol=0.003)
    assert np.allclose([scenes.size.min(), scenes.size.max()], [0.55, 0.85], atol=0.002)
    assert np.abs(scenes.color - jnp.asarray([0.7, 0.3, 0.3])).max() <= 0.05 + 1e-6
    assert np.abs(scenes.center).max() <= 0.5
    assert scenes.background.min() >= 0.8


def test_signals_of_conditions_are_the_distances_of_the_prompts():
    signal, spread = ImageConcepts(0.3).condition_signals()
    assert np.allclose(signal, [np.sqrt(2) * 0.3, 0.4])
    conditions = ImageConcepts(0.3).pictures(KEY, np.zeros((4000, 2), int)).condition
    along = [np.std((conditions[:, 3] - conditions[:, 1]) / np.sqrt(2)), np.std(conditions[:, 0])]
    assert np.allclose(spread, along, rtol=0.04)


@pytest.mark.parametrize("separation", [0.2, 0.7])
def test_concepts_are_read_off_the_pixels(separation):
    process = ImageConcepts(separation, pixels=16, blur=0.5)
    values = np.repeat(process.classes, 100, axis=0)
    read = read_concepts(process.pictures(KEY, values).x, process)
    assert np.mean(np.asarray(read.values) == values) > 0.99
    assert float(read.formed.mean()) > 0.98
    means = np.asarray(read.levels).reshape(4, 100, 2).mean(1)
    assert np.abs(means - process.classes).max() < 0.15


def test_shapes_are_read_off_the_pixels():
    process = ImageConcepts(0.5, concepts=("size", "shape", "color"), center=0.2, size_spread=0.1)
    values = np.repeat(process.classes, 40, axis=0)
    read = read_concepts(process.pictures(KEY, values).x, process)
    assert np.mean(np.asarray(read.values) == values, axis=0).min() > 0.97


def test_noise_and_empty_pictures_show_no_object():
    process = ImageConcepts(pixels=8)
    noise = jnp.clip(jax.random.normal(KEY, (20, 8, 8, 3)), 0, 1)
    assert float(read_concepts(noise, process).formed.max()) == 0
    assert np.all(np.asarray(read_concepts(jnp.ones((1, 8, 8, 3)), process).values) == 0.5)


def test_labels_have_the_cross_entropy_of_chance_and_the_accuracy_of_the_right_answer():
    task = ConceptLabels([ImageConcepts(one, pixels=8) for one in (0.2, 0.8)])
    batch = task.sample(KEY, 9)
    assert batch.x.shape == (9, 8, 8, 3)
    assert float(task.loss(lambda x: jnp.zeros((2, 2)), batch)) == pytest.approx(2 * np.log(2))
    assert np.allclose(
        task.accuracy(lambda x: jnp.asarray([[1.0, 0.0], [0.0, 1.0]]), batch),
        [np.mean(batch.y[:, 0] == 0), np.mean(batch.y[:, 1] == 1)],
    )


def test_malformed_settings_are_named():
    with pytest.raises(
        ValueError, match=r"color_separation must be a finite number, at least 0 and at most 1; got 1\.5"
    ):
        ImageConcepts(1.5)
    with pytest.raises(ValueError, match="each of concepts must be one of 'color', 'size', 'shape'"):
        ImageConcepts(concepts=("colour",))
    with pytest.raises(ValueError, match="values must have a column for each of 2 concepts"):
        ImageConcepts().prompts([[0, 1, 1]])
    with pytest.raises(ValueError, match="values must be zeros and ones"):
        ImageConcepts().prompts([[0, 2]])
