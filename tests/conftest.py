"""Fixtures for every test. Real control planes come from `devcluster.pytest_plugin`, started only where a test asks for one.

Hypothesis draws the same examples in every run, so that a run tells about a change and not about luck; `make fuzz` draws new ones.
"""

from hypothesis import settings

pytest_plugins = ["devcluster.pytest_plugin"]

settings.register_profile("repeatable", derandomize=True, deadline=None)
settings.register_profile("fuzz", derandomize=False, deadline=None, database=None, print_blob=True)
settings.load_profile("repeatable")
