"""Who may look: this machine, the holder of the token, and no other page."""

from __future__ import annotations

import secrets
from collections.abc import Iterable
from urllib.parse import parse_qs

from starlette.datastructures import Headers, MutableHeaders
from starlette.requests import cookie_parser
from starlette.responses import PlainTextResponse, RedirectResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

COOKIE = "tripheno"
HEADERS = {
    "content-security-policy": "default-src 'none'; script-src 'self'; style-src 'self' "
    "'unsafe-inline'; connect-src 'self'; img-src 'self'; form-action 'self'; base-uri 'none'; "
    "frame-ancestors 'none'",
    "x-content-type-options": "nosniff",
    "referrer-policy": "same-origin",
    "cache-control": "no-store",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
}


class Guard:
    """Checks every request before the pages see it.

    The Host must be this machine's own name, so that a foreign name pointed at 127.0.0.1 gets
    nothing; a change must come from our own pages (Origin); and the token must have been shown once
    in the address, which sets a cookie that no script can read and no other site sends along.
    """

    def __init__(self, app: ASGIApp, token: str, hosts: Iterable[str]) -> None:
        self.app, self.token, self.hosts = app, token, frozenset(hosts)
        ports = {host.rpartition(":")[2] for host in self.hosts}
        self.cookie = f"{COOKIE}-{min(ports)}"  # browsers keep one jar for all ports of a machine

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer, refuse or pass on one request."""
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return

        async def guarded(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                for name, value in HEADERS.items():
                    headers[name] = value
            await send(message)

        answer = self._verdict(scope)
        await (answer or self.app)(scope, receive, guarded)

    def _verdict(self, scope: Scope) -> Response | None:
        """A refusal, a redirect that sets the cookie, or nothing: go on."""
        headers = Headers(scope=scope)
        if headers.get("host") not in self.hosts:
            return PlainTextResponse("This page is for this machine only.", 421)
        ours = {f"http://{host}" for host in self.hosts}
        if scope["method"] not in ("GET", "HEAD") and headers.get("origin") not in ours:
            return PlainTextResponse("This change came from another page.", 403)
        given = parse_qs(scope["query_string"].decode("latin-1")).get("token", [""])[0]
        if given and secrets.compare_digest(given.encode(), self.token.encode()):
            answer = RedirectResponse(scope["path"], 303)
            answer.set_cookie(self.cookie, self.token, httponly=True, samesite="strict")
            return answer
        shown = cookie_parser(headers.get("cookie", "")).get(self.cookie, "")
        if not secrets.compare_digest(shown.encode(), self.token.encode()):
            return PlainTextResponse("Open the address that `tripheno ui` printed.", 403)
        return None
