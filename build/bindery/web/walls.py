"""Answers for programs and not for readers: bot defences, logins, paywalls."""

from __future__ import annotations

from bindery.web.fetch import Reply

_GATES = {
    401: "it wants a password",
    402: "it wants to be paid",
    403: "it does not answer programs",
    407: "a proxy wants a password",
    451: "it is blocked for legal reasons",
    999: "it does not answer programs",
}


def find_wall(reply: Reply) -> str:
    """Why a program is not let through; empty if it is."""
    headers = reply.headers
    server = headers.get("server", "").lower()
    is_refused = reply.status in (403, 503)
    walls = {
        "Cloudflare": headers.get("cf-mitigated") or (server == "cloudflare" and is_refused),
        "Vercel": headers.get("x-vercel-mitigated"),
        "the firewall of Amazon": headers.get("x-amzn-waf-action"),
        "Akamai": server.startswith("akamai") and is_refused,
        "DataDome": "x-datadome" in headers and reply.status == 403,
    }
    for name, is_there in walls.items():
        if is_there:
            return f"{name} answers {reply.status} to programs"
    if reply.status in _GATES:
        return f"answers {reply.status}: {_GATES[reply.status]}"
    return ""
