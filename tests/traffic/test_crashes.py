"""Whatever happens in whatever order: what was acknowledged is there, once."""

import shutil
import tempfile
from pathlib import Path

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from dualmind.traffic.compact import compact
from dualmind.traffic.layout import LABELS
from dualmind.traffic.log import DecisionLog
from dualmind.traffic.parquet import active_segment
from dualmind.traffic.read import read_month
from tests.traffic.records import MONTH, decision, label, open_log


class Traffic(RuleBasedStateMachine):
    """A log beside a model of it: dictionaries."""

    def __init__(self) -> None:
        super().__init__()
        self.root = Path(tempfile.mkdtemp())
        (self.root / MONTH).mkdir()
        self.log: DecisionLog = open_log(self.root)
        self.decisions: dict[str, float] = {}  # id: score of the first
        self.labels: dict[str, list[tuple[bool, str]]] = {}
        self.count = 0

    @rule(new=st.integers(1, 4), repeated=st.integers(0, 2))
    def append(self, new: int, repeated: int) -> None:
        names = [str(self.count + i) for i in range(new)] + sorted(self.decisions)[:repeated]
        done = []
        for name in names:
            self.count += 1
            score = float(self.count)
            done.append(self.log.append(decision(int(name), score=score)))
            self.decisions.setdefault(name, score)
        self.log.flush()
        assert [future.result(timeout=0) for future in done] == [MONTH] * len(done)

    @rule(of=st.integers(0, 30), correct=st.booleans(), source=st.sampled_from(["feedback", "scorer", "person"]))
    def add_label(self, of: int, correct: bool, source: str) -> None:
        done = self.log.label(label(of, correct, source), MONTH)
        self.log.flush()
        done.result(timeout=0)
        self.labels.setdefault(str(of), []).append((correct, source))

    @rule(torn=st.integers(1, 400), of_labels=st.booleans())
    def crash(self, torn: int, of_labels: bool) -> None:
        """A write of which the disk has any first part, without its acknowledgement; then a new process."""
        self.log.close()
        name = 900 + self.count
        line = (label(name) if of_labels else decision(name)).model_dump_json().encode() + b"\n"
        path = self.root / MONTH / LABELS if of_labels else active_segment(self.root / MONTH)
        with path.open("ab") as file:
            file.write(line[: min(torn, len(line) - 1)])
        self.log = open_log(self.root)
        assert [healed.path for healed in self.log.healed] == [path]

    @rule(kept=st.integers(0, 100))
    def compact(self, kept: int) -> None:
        """Also with leftovers of one that was killed after its file appeared and before its segments were removed."""
        segments = {path: path.read_bytes() for path in (self.root / MONTH).glob("decisions-*.jsonl")}
        report = compact(self.root, MONTH, is_over=False)
        assert report.decisions == len(self.decisions)
        assert report.unknown_labels.count == len(set(self.labels) - set(self.decisions))
        verdicts = {name: {correct for correct, _ in given} for name, given in self.labels.items()}
        assert report.contradictory_labels.count == sum(len(seen) > 1 for seen in verdicts.values())
        if kept % 2:
            for path, content in segments.items():
                if not path.exists():
                    path.write_bytes(content)

    @invariant()
    def everything_acknowledged_is_there_once(self) -> None:
        rows = read_month(self.root, MONTH, ["request_id", "score", "correct", "label_source"]).to_pylist()
        assert len(rows) == len(self.decisions)
        for row in rows:
            assert row["score"] == self.decisions[row["request_id"]]
            given = sorted(self.labels.get(row["request_id"], []), key=lambda event: event[1] == "feedback")
            assert (row["correct"], row["label_source"]) == (given[0] if given else (None, None))

    def teardown(self) -> None:
        self.log.close()
        shutil.rmtree(self.root)


TestTraffic = Traffic.TestCase
TestTraffic.settings = settings(max_examples=25, stateful_step_count=12, deadline=None)
