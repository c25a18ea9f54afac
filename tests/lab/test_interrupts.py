"""An interrupt that Python loses is raised at the next sign of progress."""

import signal
import threading
from pathlib import Path

import pytest

from dynascope.dynamics.monitor import monitored_by
from dynascope.lab.monitor import LabMonitor, remembered_interrupts
from dynascope.lab.run import run


class Interrupted:
    """Something whose finalizer is interrupted; Python prints the exception and goes on."""

    def __del__(self):
        signal.raise_signal(signal.SIGINT)


@pytest.fixture(autouse=True)
def heard():
    """A shell that runs the tests in the background has them ignore Ctrl-C."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_an_interrupt_lost_in_a_finalizer_stops_the_work_at_its_next_progress(tmp_path: Path, walk):
    with remembered_interrupts() as interrupted, monitored_by(LabMonitor(tmp_path, interrupted=interrupted)):
        Interrupted()
        with pytest.raises(KeyboardInterrupt):
            walk(steps=5).measure(0)
    walk(steps=5).measure(0)


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_a_run_is_stopped_by_it(store, walk):
    class Lost(walk):
        def measure(self, seed):
            Interrupted()
            return super().measure(seed)

    with pytest.raises(KeyboardInterrupt):
        run(Lost(steps=5), store=store)
    assert store.runs()[0] == []


def test_an_interrupt_is_raised_where_it_falls_and_the_handler_before_is_put_back():
    before = signal.getsignal(signal.SIGINT)
    with pytest.raises(KeyboardInterrupt), remembered_interrupts():
        signal.raise_signal(signal.SIGINT)
    assert signal.getsignal(signal.SIGINT) is before


def test_other_threads_and_ignored_interrupts_are_left_alone():
    said = []

    def elsewhere() -> None:
        with remembered_interrupts() as interrupted:
            interrupted()
            said.append("nothing")

    thread = threading.Thread(target=elsewhere)
    thread.start()
    thread.join()
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    with remembered_interrupts() as interrupted:
        signal.raise_signal(signal.SIGINT)
        interrupted()
    assert said == ["nothing"]
