"""Loading of pretrained language models: the one that `dynascope data` fetches, a folder, a file, a hub."""

from __future__ import annotations

import contextlib
import io
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from dynascope import checks
from dynascope.lm.extra import missing_extra, package
from dynascope.lm.language_model import LanguageModel
from dynascope.tasks.data import catalog, files

AT_HAND = "smollm2"
"""SmolLM2-135M-Instruct: 30 layers of width 576, as `dynascope data fetch smollm2` keeps it."""
WEIGHTS = ("*.safetensors", "*.bin", "*.gguf")


def load_lm(
    name: str | Path = AT_HAND,
    *,
    revision: str | None = None,
    dtype: str = "float32",
    device: str | None = None,
    offline: bool = True,
) -> LanguageModel:
    """A pretrained model with its tokenizer. Needs `pip install 'dynascope[lm]'`.

    Args:
        name: "smollm2", a folder with a model as `save_pretrained` writes it, a `.gguf` file, or the name of a model on
            a hub, which is looked for in the hub's cache on this machine.
        revision: The revision on the hub (Pythia's are "step0" to "step143000").
        dtype: "float32", "bfloat16" or "float16".
        device: A device of PyTorch. Default: a GPU if there is one.
        offline: Whether to make no requests to the hub.
    """
    if not isinstance(name, str | Path) or not str(name).strip():
        raise TypeError(f"name must be a model, a folder or a file; got {checks.shown(name)}")
    if revision is not None and not isinstance(revision, str):
        raise TypeError(f"revision must be a string; got {checks.shown(revision)}")
    if device is not None and not isinstance(device, str):
        raise TypeError(f"device must be a string; got {checks.shown(device)}")
    checks.one_of("dtype", dtype, ("float32", "bfloat16", "float16"))
    checks.flags(offline=offline)
    if missing := missing_extra():
        raise ImportError(missing)
    torch, transformers = package("torch"), package("transformers")
    where, options = _place(name)
    options |= {"local_files_only": offline or Path(where).is_dir(), **({"revision": revision} if revision else {})}
    try:
        device = str(torch.device(device or ("cuda" if torch.cuda.is_available() else "cpu")))
    except RuntimeError:
        raise ValueError(f"device must be a device of PyTorch, such as cpu or cuda; got {device!r}") from None
    with _quiet(transformers):
        try:
            tokenizer = transformers.AutoTokenizer.from_pretrained(where, **options)
            model = transformers.AutoModelForCausalLM.from_pretrained(where, dtype=getattr(torch, dtype), **options)
        except (OSError, ValueError, KeyError, package("safetensors").SafetensorError) as error:
            reason = (str(error).strip().splitlines() or [type(error).__name__])[0]
            told = f"{str(name)!r} cannot: {reason:.120}"
            raise checks.InputError(f"name must be a model that can be loaded; {told}") from error
    return LanguageModel(model.to(device), tokenizer)


def missing_model(name: str, *, field: str = "name") -> str:
    """A line that says what to install or fetch for `load_lm(name)`; "" if nothing is known to be missing.

    Args:
        name: The model.
        field: The line's word for the name.
    """
    if missing := missing_extra():
        return missing
    try:
        if name == AT_HAND:
            catalog.find(name)
            return ""
        where, _ = _place(name, field)
        if not Path(where).is_dir() and not isinstance(_cached(where), str):
            return f"no model {name!r} on this machine; give the folder of one, or fetch it with load_lm(offline=False)"
    except (files.DataNotFoundError, ValueError) as error:
        return str(error)
    return ""


def _cached(name: str) -> object:
    """The path of a model's configuration in the hub's cache, if it is there."""
    try:
        return package("huggingface_hub").try_to_load_from_cache(name, "config.json")
    except ValueError:
        return None


def _place(name: str | Path, field: str = "name") -> tuple[str, dict[str, Any]]:
    """The folder or the hub's name, and the options that say which file of it is read."""
    path = Path(name).expanduser()
    if str(name) == AT_HAND:
        path = catalog.find(AT_HAND)[0]
        files.record(AT_HAND)
    if path.is_file() and path.suffix == ".gguf":
        return str(path.parent), {"gguf_file": path.name}
    if path.is_dir() and not any(any(path.glob(pattern)) for pattern in WEIGHTS):
        wanted = ", ".join(pattern.removeprefix("*") for pattern in WEIGHTS)
        raise ValueError(f"{field} must be a folder with weights ({wanted}); {str(path)!r} has none")
    if not path.is_dir() and (path.is_absolute() or str(name).startswith((".", "~")) or path.is_file()):
        raise ValueError(f"{field} must be a folder with a model, or a .gguf file; {str(path)!r} is neither")
    return str(path if path.is_dir() else name), {}


@contextlib.contextmanager
def _quiet(transformers: Any) -> Iterator[None]:
    """Turn off the progress bars and the advice of transformers inside a `with`."""
    logging = transformers.utils.logging
    before = logging.get_verbosity()
    logging.set_verbosity_error()
    try:
        with contextlib.redirect_stderr(io.StringIO()):
            yield
    finally:
        logging.set_verbosity(before)
