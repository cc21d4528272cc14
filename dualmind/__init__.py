"""dualmind: a reproducible factory for fast/slow agents.

The library holds models, learning, domains, data and evaluation. It knows nothing of DVC or Prefect and never
reads ``params.yaml``: stages do (see ``stages/``).
"""

__version__ = "0.1.0"
