"""A call on its way to another process and back: bytes that hold what it returned, or what it raised."""

from __future__ import annotations

import pickle
import traceback
from multiprocessing.reduction import ForkingPickler
from typing import Any

from dynascope.lab.errors import one_line
from dynascope.lab.workers.parcels import Parcel


def answered(question: bytes) -> bytes:
    """Carry out a pickled `(function, arguments, keywords)`. What it raises is an answer too, with the traceback as a
    note; what cannot be sent back is an error."""
    try:
        fn, args, kwargs = pickle.loads(question)
        answer = True, fn(*args, **kwargs)
    except BaseException as error:
        error.add_note("in a worker:\n" + traceback.format_exc())
        answer = False, error
    try:
        return bytes(ForkingPickler.dumps(answer))
    except Exception as error:
        return bytes(ForkingPickler.dumps((False, RuntimeError(f"its result cannot be sent: {one_line(error)}"))))


def result_of(answer: bytes) -> Any:
    """What the call returned (a parcel is delivered first); what it raised is raised here."""
    done, value = pickle.loads(answer)
    if not done:
        raise value
    return value.deliver() if isinstance(value, Parcel) else value
