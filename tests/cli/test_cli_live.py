"""The command `live`: what it says where it cannot begin."""

from __future__ import annotations

import socket

from dynascope.cli import live


def test_a_missing_extra_is_one_line_that_says_what_to_install(dynascope, monkeypatch):
    monkeypatch.setattr(live, "find_spec", lambda name: None if name == "uvicorn" else object())
    status, _, lines = dynascope("live")
    assert status == 2
    assert lines == ["dynascope: the live page needs uvicorn: pip install 'dynascope[live]'"]


def test_a_port_that_is_taken_is_told(dynascope):
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        status, _, (line,) = dynascope("live", "--port", str(port))
    assert status == 2
    assert (
        line == f"dynascope: --port {port} cannot be used (Address already in use): choose another, or 0 for a free one"
    )


def test_a_store_that_is_a_file_is_refused(dynascope, tmp_path):
    (tmp_path / "runs").write_text("")
    assert dynascope("live")[0] == 2


def test_a_store_that_cannot_be_made_is_told_before_the_page_is_there(dynascope, tmp_path):
    (tmp_path / "file").write_text("")
    status, out, lines = dynascope("live", "--runs", str(tmp_path / "file" / "runs"))
    assert (status, out) == (2, "")
    assert lines == [
        f"dynascope: --runs {tmp_path}/file/runs cannot be created (Not a directory): choose another folder"
    ]
