"""Fixtures that more than one folder of tests uses."""

from tests.lineage.fixtures import key, pristine, project

__all__ = ["key", "pristine", "project"]
