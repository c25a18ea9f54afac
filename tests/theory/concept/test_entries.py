import numpy as np
import pytest

from dynascope.theory.concept.entries import MAJOR, MINOR, entry_classes


@pytest.mark.parametrize(("dim", "concepts"), [(2, 2), (3, 2), (5, 3), (4, 1), (6, 6)])
def test_the_classes_divide_the_entries(dim, concepts):
    classes = entry_classes(dim, concepts)
    together = classes.major.astype(int) + classes.minor.astype(int) + classes.irrelevant.astype(int)
    assert np.all(together == 1)
    assert classes.major.sum() == concepts
    assert classes.minor.sum() == concepts * (concepts - 1) + 2 * concepts * (dim - concepts)


def test_a_minor_between_two_concepts_is_in_two_groups():
    classes = entry_classes(4, 2)
    membership = classes.groups.sum(axis=0)
    assert membership[0, 1] == membership[1, 0] == 2
    assert membership[0, 3] == membership[3, 1] == 1
    assert membership[2, 3] == membership[2, 2] == membership[0, 0] == 0
    assert np.array_equal(membership > 0, classes.minor)


def test_labels_draw_figure_4():
    labels = entry_classes(3, 2).labels
    np.testing.assert_array_equal(labels, [[MAJOR, MINOR, MINOR], [MINOR, MAJOR, MINOR], [MINOR, MINOR, 0]])


def test_more_concepts_than_axes_are_refused():
    with pytest.raises(ValueError, match="concepts"):
        entry_classes(2, 3)
