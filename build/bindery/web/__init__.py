"""Links to the web: asked politely, judged, remembered, and fixed on request.

`addresses` gathers them, `sweep` asks them host by host with the good manners of `asking`,
`judging` says what an answer means, `memory` keeps it. Nothing here is imported by `check`.
"""
