"""The server answers its own page on this machine, and nobody else."""

from __future__ import annotations

import asyncio

import pytest

from dynascope.live import guard

TOKEN, PORT = "a-token-for-tests", 8123  # those of the fixtures
WITH_TOKEN = {"x-dynascope-token": TOKEN}


@pytest.mark.parametrize("path", ["/", "/assets/main.js", "/assets/style.css"])
def test_the_page_itself_is_no_secret_and_sets_no_cookie(stranger, path):
    answer = stranger().get(path)
    assert answer.status_code == 200
    assert "set-cookie" not in answer.headers
    assert TOKEN not in answer.text


@pytest.mark.parametrize("path", ["/api/experiments", "/api/events", "/api/nothing", "/nothing", "//assets/main.js"])
@pytest.mark.parametrize("given", ["", "wrong", TOKEN[:-1], f"{TOKEN}x", "tökén"])
def test_a_missing_or_wrong_token_is_refused(stranger, path, given):
    client = stranger(**({"x-dynascope-token": given.encode()} if given else {}))
    answer = client.get(path)
    assert answer.status_code == 403
    assert "token" in answer.text


def test_the_token_counts_in_the_header_alone(stranger):
    assert stranger(**WITH_TOKEN).get("/api/experiments").status_code == 200
    assert stranger().get(f"/api/experiments?token={TOKEN}").status_code == 403
    assert stranger(cookie=f"dynascope-{PORT}={TOKEN}").get("/api/experiments").status_code == 403


@pytest.mark.parametrize("cookie", ['prefs={"a":1}', 'a="b', "a=ü; b", "=;;=", "x" * 5000])
def test_cookies_of_other_programs_do_not_matter(stranger, cookie):
    client = stranger(**WITH_TOKEN, cookie=cookie.encode())
    assert client.get("/").status_code == 200
    assert client.get("/api/experiments").status_code == 200


@pytest.mark.parametrize(
    "host", ["evil.example", f"evil.example:{PORT}", "127.0.0.1:80", f"127.0.0.1.evil.example:{PORT}"]
)
def test_another_host_is_refused_even_with_the_token(stranger, host):
    assert stranger(**WITH_TOKEN, host=host).get("/api/experiments").status_code == 421


@pytest.mark.parametrize(
    "origin", ["http://evil.example", "null", "http://127.0.0.1:80", f"https://evil.example:{PORT}"]
)
def test_another_origin_is_refused_even_with_the_token(stranger, origin):
    client = stranger(**WITH_TOKEN, origin=origin)
    assert client.get("/api/experiments").status_code == 403
    assert client.post("/api/stop", json={}).status_code == 403


def test_a_body_of_ten_megabytes_is_refused(client):
    assert client.post("/api/check", content=b"x" * 10_000_000).status_code == 413


@pytest.mark.parametrize("length", ["²", "-1", "1e3", ""])
def test_a_length_that_is_no_number_is_refused(client, length):
    assert (
        client.post("/api/check", content=b"{}", headers={"content-length": length.encode("latin-1")}).status_code
        == 413
    )


def test_a_body_that_does_not_say_how_long_it_is_is_refused_too(client):
    async def pieces():
        for _ in range(100):
            yield b"x" * 100_000

    assert client.post("/api/check", content=pieces()).status_code == 413


def test_a_body_that_never_arrives_is_given_up(client, monkeypatch):
    monkeypatch.setattr(guard, "BODY_SECONDS", 0.05)

    async def pieces():
        yield b"{"
        await asyncio.sleep(60)

    assert client.post("/api/check", content=pieces()).status_code == 408


def test_scripts_come_from_the_server_alone(client):
    page = client.get("/")
    policy = dict(part.strip().split(" ", 1) for part in page.headers["content-security-policy"].split(";"))
    assert policy["script-src"] == "'self'"
    assert policy["default-src"] == "'none'"
    assert policy["connect-src"] == "'self'"
    assert policy["frame-ancestors"] == "'none'"
    assert "<script>" not in page.text
    assert "onclick" not in page.text
    assert page.headers["referrer-policy"] == "no-referrer"
