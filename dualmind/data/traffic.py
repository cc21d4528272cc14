"""A month's labelled decisions, frozen: what a proof of a threshold was made from, and its suite.

Only rows that the server drew for its audit and that the audit labelled stand here; see
:mod:`dualmind.calibration.sample` for why no other row may.
"""

from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from dualmind.data.suites import Helper, Suite, SuiteParams, import_great_expectations

if TYPE_CHECKING:
    import pandas as pd

SCHEMA = pa.schema(
    [
        pa.field("time", pa.timestamp("us", tz="UTC")),
        pa.field("request_id", pa.string()),
        pa.field("domain", pa.string()),
        pa.field("prompt_sha256", pa.string()),
        pa.field("confidence", pa.float64()),
        pa.field("difficulty", pa.float64()),  # null where it was not computed, as the next one and monitor
        pa.field("curvature", pa.float64()),
        pa.field("score", pa.float64()),
        pa.field("monitor", pa.float64()),
        pa.field("tier", pa.string()),
        pa.field("audited", pa.bool_()),
        pa.field("correct", pa.bool_()),
        pa.field("label_source", pa.string()),
        pa.field("release", pa.string()),
    ]
)
_NULLABLE = {"difficulty", "curvature", "monitor"}
_TYPES = {pa.string(): "str", pa.float64(): "float64", pa.bool_(): "bool"}  # pandas' names
_TIERS = ["system1", "shallow", "full"]
_AUDIT_SOURCES = ["scorer", "system2", "person"]  # never "feedback"
_HEX_DIGITS = 64  # of a SHA-256


def traffic_decisions(params: SuiteParams) -> Suite:
    """The suite of a frozen month."""
    gxe = import_great_expectations().expectations
    return Suite(
        "traffic decisions",
        helpers=(Helper("score_is_finite", ("score",), _score_is_finite),),
        expectations=[
            *(gxe.ExpectColumnToExist(column=field.name) for field in SCHEMA),
            *(
                gxe.ExpectColumnValuesToBeOfType(column=field.name, type_=_TYPES[field.type])
                for field in SCHEMA
                if field.type in _TYPES
            ),
            *(gxe.ExpectColumnValuesToNotBeNull(column=name) for name in SCHEMA.names if name not in _NULLABLE),
            gxe.ExpectTableRowCountToBeBetween(min_value=params.min_decisions),
            gxe.ExpectColumnValuesToBeUnique(column="request_id"),
            gxe.ExpectColumnValueLengthsToEqual(column="prompt_sha256", value=_HEX_DIGITS),
            gxe.ExpectColumnValuesToBeBetween(column="confidence", min_value=0, max_value=1),
            gxe.ExpectColumnValuesToBeInSet(column="score_is_finite", value_set=[True]),
            gxe.ExpectColumnValuesToBeInSet(column="tier", value_set=_TIERS),
            gxe.ExpectColumnValuesToBeInSet(column="audited", value_set=[True]),
            gxe.ExpectColumnValuesToBeInSet(column="label_source", value_set=_AUDIT_SOURCES),
        ],
    )


def _score_is_finite(frame: "pd.DataFrame") -> "pd.Series[Any]":
    import pandas as pd

    return pd.Series(np.isfinite(frame["score"].to_numpy()), index=frame.index)
