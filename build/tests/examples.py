"""How many examples hypothesis draws. A slow machine is not a failure, so there is no deadline.

The quick session draws the same few examples every time; the nightly session draws more, and new
ones, where BINDERY_NIGHTLY is set. A test that asks for a number of its own keeps it.
"""

import os

import hypothesis

IS_NIGHTLY = "BINDERY_NIGHTLY" in os.environ

hypothesis.settings.register_profile(
    "bindery",
    deadline=None,
    max_examples=500 if IS_NIGHTLY else 30,
    derandomize=not IS_NIGHTLY,
    suppress_health_check=[hypothesis.HealthCheck.too_slow],
)
hypothesis.settings.load_profile("bindery")
