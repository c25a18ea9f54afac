import jax
import pytest


@pytest.fixture(autouse=True)
def double_precision_and_strict_promotion():
    with jax.enable_x64(True), jax.numpy_dtype_promotion("strict"):
        yield
