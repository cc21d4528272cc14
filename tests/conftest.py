"""Fixtures that more than one folder of tests uses."""

from tests.lineage.fixtures import both, key, pristine, project, two

__all__ = ["both", "key", "pristine", "project", "two"]
