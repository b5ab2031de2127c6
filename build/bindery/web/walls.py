"""Answers that are meant for programs and not for readers: walls, challenges, gates."""

from __future__ import annotations

from bindery.web.fetch import Reply

_GATES = {
    401: "it wants a password",
    402: "it wants to be paid",
    403: "it does not answer programs",
    407: "a proxy wants a password",
    451: "it is barred by law here",
    999: "it does not answer programs",
}


def find_wall(reply: Reply) -> str:
    """Why a program is not let through; nothing where it is."""
    headers = reply.headers
    server = headers.get("server", "").lower()
    if headers.get("cf-mitigated") or (server == "cloudflare" and reply.status in (403, 503)):
        return f"Cloudflare answers {reply.status} to programs"
    if headers.get("x-vercel-mitigated"):
        return f"Vercel answers {reply.status} to programs"
    if headers.get("x-amzn-waf-action"):
        return f"the firewall of Amazon answers {reply.status} to programs"
    if server.startswith("akamai") and reply.status in (403, 503):
        return f"Akamai answers {reply.status} to programs"
    if "x-datadome" in headers and reply.status == 403:
        return f"DataDome answers {reply.status} to programs"
    if reply.status in _GATES:
        return f"answers {reply.status}: {_GATES[reply.status]}"
    return ""
