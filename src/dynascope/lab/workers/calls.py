"""Calls in another process, as bytes: the call, and its result or exception."""

from __future__ import annotations

import pickle
import traceback
from multiprocessing.reduction import ForkingPickler

from dynascope.lab.errors import one_line
from dynascope.lab.workers.parcels import Parcel


def call(question: bytes) -> bytes:
    """Call a pickled `(function, arguments, keywords)`. The answer is its result, or the exception that it raised with
    the traceback as a note; a result that cannot be pickled is an exception too."""
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


def result_of(answer: bytes) -> object:
    """The result of the call (a parcel is delivered first); its exception is raised."""
    done, value = pickle.loads(answer)
    if not done:
        raise value
    return value.deliver() if isinstance(value, Parcel) else value
