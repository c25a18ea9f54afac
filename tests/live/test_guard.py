"""The server answers its own page on this machine, and nobody else."""

from __future__ import annotations

import pytest

TOKEN, PORT = "a-token-for-tests", 8123  # those of the fixtures
COOKIE = {"cookie": f"dynascope-{PORT}={TOKEN}"}


def test_the_printed_address_opens_the_page_and_leaves_a_cookie_that_scripts_cannot_read(stranger):
    client = stranger()
    page = client.get(f"/?token={TOKEN}")
    assert page.status_code == 200
    cookie = page.headers["set-cookie"]
    assert f"dynascope-{PORT}={TOKEN}" in cookie
    assert "HttpOnly" in cookie
    assert "SameSite=Strict" in cookie
    assert client.get("/api/experiments").status_code == 200, "the cookie is enough from then on"


@pytest.mark.parametrize(
    "path", ["/", "/?token=", "/?token=wrong", "/api/experiments", "/assets/main.js", "/api/events"]
)
def test_a_missing_or_wrong_token_is_refused(stranger, path):
    answer = stranger().get(path)
    assert answer.status_code == 403
    assert "token" in answer.text
    assert "set-cookie" not in answer.headers


def test_the_token_of_an_address_counts_for_the_page_alone(stranger):
    assert stranger().get(f"/api/experiments?token={TOKEN}").status_code == 403


@pytest.mark.parametrize(
    "host", ["evil.example", f"evil.example:{PORT}", "127.0.0.1:80", f"127.0.0.1.evil.example:{PORT}"]
)
def test_another_host_is_refused_even_with_the_token(stranger, host):
    assert stranger(**COOKIE, host=host).get("/api/experiments").status_code == 421


@pytest.mark.parametrize(
    "origin", ["http://evil.example", "null", "http://127.0.0.1:80", f"https://evil.example:{PORT}"]
)
def test_another_origin_is_refused_even_with_the_token(stranger, origin):
    client = stranger(**COOKIE, origin=origin)
    assert client.get("/api/experiments").status_code == 403
    assert client.post("/api/stop", json={}).status_code == 403


def test_a_request_from_another_site_is_refused_without_an_origin_too(stranger):
    assert stranger(**COOKIE, **{"sec-fetch-site": "cross-site"}).get("/api/experiments").status_code == 403


def test_a_change_needs_an_origin(stranger):
    assert stranger(**COOKIE).post("/api/stop", json={}).status_code == 403
    assert stranger(**COOKIE, origin=f"http://127.0.0.1:{PORT}").post("/api/stop", json={}).status_code == 200


def test_a_body_of_ten_megabytes_is_refused(client):
    assert client.post("/api/check", content=b"x" * 10_000_000).status_code == 413


def test_a_body_that_does_not_say_how_long_it_is_is_refused_too(client):
    async def pieces():
        for _ in range(100):
            yield b"x" * 100_000

    assert client.post("/api/check", content=pieces()).status_code == 413


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
