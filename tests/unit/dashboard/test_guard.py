"""The dashboard answers this machine, its own pages and whoever was given the address."""

from __future__ import annotations

import asyncio

import pytest

from tripheno.dashboard.guard import COOKIE, HEADERS, Guard

HOST, TOKEN = "127.0.0.1:8000", "secret"
SHOWN = {"cookie": f"{COOKIE}-{HOST.rpartition(':')[2]}={TOKEN}"}


def asked(method="GET", query="", **headers):
    """Status and headers of one request; 200 where it was passed on to the pages."""
    heard = []

    async def pages(_scope, _receive, send):
        await send({"type": "http.response.start", "status": 200, "headers": []})

    async def send(message):
        heard.append(message)

    given = {"host": HOST, **headers}
    scope = {
        "type": "http", "method": method, "path": "/", "query_string": query.encode(),
        "headers": [(k.encode(), v.encode()) for k, v in given.items()],
    }  # fmt: skip
    asyncio.run(Guard(pages, TOKEN, [HOST])(scope, None, send))
    found = {k.decode(): v.decode() for k, v in heard[0]["headers"]}
    return heard[0]["status"], found


@pytest.mark.parametrize(
    ("status", "request_"),
    [
        (200, SHOWN),
        (200, {"method": "POST", "origin": f"http://{HOST}", **SHOWN}),
        (303, {"query": f"token={TOKEN}"}),
        (403, {}),
        (403, {"query": "token=other"}),
        (403, {"cookie": SHOWN["cookie"].replace(TOKEN, "other")}),
        (403, {"method": "POST", **SHOWN}),
        (403, {"method": "POST", "origin": "http://elsewhere", **SHOWN}),
        (421, {"host": "elsewhere", **SHOWN}),
        (421, {"host": "elsewhere", "query": f"token={TOKEN}"}),
    ],
)
def test_a_request_is_answered_only_by_host_origin_and_token(status, request_):
    found, headers = asked(**request_)
    assert found == status
    assert headers.items() >= {k.lower(): v for k, v in HEADERS.items()}.items()


def test_the_cookie_is_for_these_pages_alone():
    cookie = asked(query=f"token={TOKEN}")[1]["set-cookie"]
    assert "httponly" in cookie.lower()
    assert "samesite=strict" in cookie.lower()
    assert cookie.startswith(f"{COOKIE}-{HOST.rpartition(':')[2]}=")  # another port's is another
