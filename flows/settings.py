"""Prefect's settings for this project; import it before Prefect, which reads them then. What the user has set stays."""

import os
from pathlib import Path

for _key, _value in {
    "PREFECT_HOME": str(Path.cwd() / ".prefect"),
    "PREFECT_SERVER_ANALYTICS_ENABLED": "false",
    "PREFECT_SERVER_EPHEMERAL_STARTUP_TIMEOUT_SECONDS": "120",  # the default of 20 s is too short on a busy laptop
    "DO_NOT_TRACK": "1",
}.items():
    os.environ.setdefault(_key, _value)
