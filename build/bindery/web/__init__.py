"""Check links to the web, politely; remember the answers, and fix links on request.

`addresses` gathers them, `sweep` requests them per host with the rate limits of `asking`, `judging`
interprets the answers, `memory` stores them. `check` imports none of this.
"""
