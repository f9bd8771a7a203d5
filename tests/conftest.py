"""Fixtures for every test. Real control planes come from `devcluster.pytest_plugin`, started only where a test asks for one."""

pytest_plugins = ["devcluster.pytest_plugin"]
