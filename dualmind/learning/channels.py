"""Dual-channel replay: decisions that System 1 was sure of are learnt by System 1, the others by System 2 first."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Annotated, Any, Literal

import pyarrow as pa
import pyarrow.parquet as pq
from pydantic import BaseModel, ConfigDict, Field, PositiveInt

from dualmind.data.decisions import SCHEMA, DecisionRow
from dualmind.data.tables import write_table
from dualmind.domains.household.domain import HOPS, Household
from dualmind.learning.acting import Played
from dualmind.learning.skipped import Skipped

Channel = Literal["system1", "system2"]
_SCHEMA = pa.schema(
    [*SCHEMA, pa.field("confidence", pa.float64(), nullable=False), pa.field("channel", pa.string(), nullable=False)]
)


class ChannelParams(BaseModel):
    """Which decisions go where."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    confidence: Annotated[float, Field(ge=0, le=1)]  # from here on a decision is System 1's
    capacity: PositiveInt  # decisions kept a channel; the oldest make room


@dataclass(frozen=True, slots=True)
class Visit:
    """A state that System 1 got into, with what its teacher would do there."""

    row: DecisionRow
    confidence: float  # System 1's, 0..1


def visits_of(played: Iterable[Played], source: str, prefix: str, *, won_only: bool = False) -> list[Visit]:
    """All decisions of games that a teacher has labelled.

    Args:
        played: games with advice at every decision.
        source: who the teacher is.
        prefix: of the example ids, to tell several plays of a game apart.
        won_only: leave games out that were lost: a teacher that errs is believed only where it led to success.
    """
    visits: list[Visit] = []
    for own in played:
        if won_only and not own.outcome.success:
            continue
        for index, moment in enumerate(own.moments):
            assert moment.advice is not None
            row = DecisionRow(
                example_id=f"{own.game.id}/{prefix}/{index}",
                domain=Household.name,
                split=own.game.split,
                problem_id=own.game.id,
                step_index=index,
                hops=HOPS[own.game.task_type],
                prompt=moment.prompt,
                candidates=moment.candidates,
                target=moment.advice.target,
                rationale=moment.advice.rationale,
                reward=float(own.outcome.success and index == len(own.moments) - 1),
                source=source,
            )
            visits.append(Visit(row, moment.confidence))
    return visits


class Channels:
    """What has been visited, in two channels; a state stands once, with its latest label: loops do not fill them."""

    def __init__(self, params: ChannelParams) -> None:
        self.params = params
        self._kept: dict[Channel, dict[tuple[str, tuple[str, ...]], Visit]] = {"system1": {}, "system2": {}}

    def add(self, visits: Sequence[Visit]) -> dict[Channel, int]:
        """Sort visits into the channels; how many each got."""
        routed: dict[Channel, int] = {"system1": 0, "system2": 0}
        for visit in visits:
            channel: Channel = "system1" if visit.confidence >= self.params.confidence else "system2"
            self._put(channel, visit)
            routed[channel] += 1
        return routed

    def hand_down(self, is_right: Callable[[Sequence[DecisionRow]], Sequence[bool]]) -> int:
        """Pass those unsure decisions that System 2 now gets right on to System 1; how many.

        They stay in System 2's channel too, so that it does not lose them again.

        Args:
            is_right: does System 2 decide as the label says?
        """
        waiting = [v for key, v in self._kept["system2"].items() if key not in self._kept["system1"]]
        if not waiting:
            return 0
        right = is_right([visit.row for visit in waiting])
        for visit, passed in zip(waiting, right, strict=True):
            if passed:
                self._put("system1", visit)
        return sum(map(bool, right))

    def rows(self, channel: Channel) -> list[DecisionRow] | Skipped:
        """What a channel holds, oldest first; the reason where it holds nothing."""
        if found := [visit.row for visit in self._kept[channel].values()]:
            return found
        at = self.params.confidence
        if not self._kept["system1" if channel == "system2" else "system2"]:
            return Skipped(
                f"both replay channels are empty: no labelled decision has been added; {channel} is unchanged"
            )
        if channel == "system1":
            reason = f"no decision of System 1 reached the confidence {at}: all went to system2's channel"
            return Skipped(f"{reason}; system1 is unchanged; lower channels.confidence, or clone it longer first")
        reason = f"all decisions of System 1 reached the confidence {at}: system2's channel is empty"
        return Skipped(f"{reason}; system2 is unchanged; raise channels.confidence if it should learn too")

    def save(self, path: Path) -> None:
        """Write both channels as Parquet, atomically."""
        rows = [
            {**asdict(visit.row), "confidence": visit.confidence, "channel": channel}
            for channel, kept in self._kept.items()
            for visit in kept.values()
        ]
        write_table(path, pa.Table.from_pylist(rows, schema=_SCHEMA))

    def restore(self, path: Path) -> None:
        """Take in what :meth:`save` wrote; order and contents are as they were."""
        names = [field.name for field in fields(DecisionRow)]
        for found in pq.read_table(path).to_pylist():
            values: dict[str, Any] = {name: found[name] for name in names}
            row = DecisionRow(**{**values, "candidates": tuple(found["candidates"])})
            self._put("system1" if found["channel"] == "system1" else "system2", Visit(row, found["confidence"]))

    def _put(self, channel: Channel, visit: Visit) -> None:
        kept = self._kept[channel]
        key = visit.row.prompt, visit.row.candidates
        kept.pop(key, None)  # to the end: it is the latest now
        kept[key] = visit
        if len(kept) > self.params.capacity:
            del kept[next(iter(kept))]
