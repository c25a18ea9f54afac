"""A store that cannot be written to serves what it has."""

from __future__ import annotations

import errno
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from dynascope.lab import files
from dynascope.lab.errors import StoreError
from dynascope.lab.run import run
from dynascope.lab.store import Store
from dynascope.tasks.data.files import cache_folder

TOY = Path(__file__).with_name("toy.py")
WALK = f"{TOY}::toy.walk"


@pytest.fixture
def refused(monkeypatch: pytest.MonkeyPatch):
    """From now on files can be opened for reading only, as root sees no permissions."""
    real = files.os.open

    def refuse(path: str | Path, flags: int, *rest: int) -> int:
        if flags & (files.os.O_WRONLY | files.os.O_RDWR):
            raise OSError(errno.EROFS, "Read-only file system", str(path))
        return real(path, flags, *rest)

    return lambda: monkeypatch.setattr(files.os, "open", refuse)


def test_a_stored_run_is_given_and_one_that_is_not_there_is_one_line(walk, store: Store, refused):
    stored = run(walk(steps=5), store=store, draw=False)
    refused()
    again = run(walk(steps=5), store=store)
    assert (again.digest, again.reused) == (stored.digest, True)
    for lacking, options in ((walk(steps=6), {}), (walk(steps=5), {"force": True})):
        with pytest.raises(StoreError) as caught:
            run(lacking, store=store, **options)
        assert str(caught.value) == (
            f"the run store {store.root} cannot be written to (Read-only file system), and has no such run of toy.walk"
        )


def test_a_run_of_other_code_is_not_taken_for_a_new_one(walk, store: Store, refused, monkeypatch: pytest.MonkeyPatch):
    stored = run(walk(steps=5), store=store, draw=False)
    refused()
    monkeypatch.setattr("dynascope.lab.execute.fingerprints", lambda _: {"measure": "other"})
    with pytest.raises(
        StoreError, match=r"cannot be written to .*, and its stored run was made by different code"
    ) as caught:
        run(walk(steps=5), store=store)
    assert str(stored.folder) in str(caught.value)


def test_a_user_without_a_home_has_a_cache(monkeypatch: pytest.MonkeyPatch):
    def unknown() -> Path:
        raise RuntimeError("Could not determine home directory.")

    for name in ("DYNASCOPE_CACHE", "XDG_CACHE_HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(Path, "home", unknown)
    assert cache_folder() == Path(tempfile.gettempdir()) / ".cache" / "dynascope"


EVERYTHING = """
import sys
from pathlib import Path
import dynascope as ds
from dynascope import cli

toy, runs = sys.argv[1:]
digest = ds.lab.load("toy.walk").digest
commands = [
    ["run", toy, "--set", "steps=5"], ["list"], ["runs"], ["runs", "--json"], ["show", toy], ["where", digest],
    ["where", toy, "--set", "steps=5"], ["compare", toy + ":0", toy + ":1"], ["report", "site"], ["rm", digest],
    ["gc", "--failed"],
]
def call(words):
    sys.argv = ["dynascope", *words]
    try:
        cli.main()
    except SystemExit as ended:
        return ended.code
for words in commands:
    assert call(words) == 0, words
assert len(ds.lab.runs()) == 2
assert Path("site/index.html").exists() and list(Path().glob("compare-*.png"))
for words in (["run", toy, "--set", "steps=6"], ["rm", digest, "--yes"], ["run", toy, "--set", "steps=5", "--force"]):
    assert call(words) == 1, words
print("served", file=sys.stderr)
"""


def test_a_store_on_a_read_only_disk_serves_every_command_that_reads(walk, store: Store, tmp_path: Path):
    unshare = shutil.which("unshare")
    if not unshare or subprocess.run([unshare, "-rm", "true"], capture_output=True).returncode:
        pytest.skip("a file system of our own cannot be mounted here")
    for seed in (0, 1):
        run(walk(steps=5), seed=seed, store=store, draw=False)
    (tmp_path / "here").mkdir()
    (tmp_path / "everything.py").write_text(EVERYTHING)
    before = sorted(path for path in store.root.rglob("*"))
    script = f"""
        mount --bind '{store.root}' '{store.root}' && mount -o remount,ro,bind '{store.root}' || exit 77
        touch '{store.root}/x' 2> /dev/null && exit 77
        cd '{tmp_path}/here' && DYNASCOPE_RUNS='{store.root}' {sys.executable} ../everything.py '{WALK}' '{store.root}'
    """
    done = subprocess.run([unshare, "-rm", "sh", "-c", script], capture_output=True, text=True, timeout=300)
    if done.returncode == 77:
        pytest.skip("a file system of our own cannot be mounted here")
    assert done.returncode == 0, done.stdout + done.stderr
    *_, first, second, third, last = (line for line in done.stderr.splitlines() if not line.endswith("..."))
    assert "cannot be written to (Read-only file system), and has no such run of toy.walk" in first
    assert second.startswith("dynascope: Read-only file system while removing runs of")
    assert "cannot be written to" in third
    assert last == "served"
    assert sorted(path for path in store.root.rglob("*")) == before
