import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dualmind.data import decisions, problems
from dualmind.data.decisions import DecisionRow, read_decisions, write_decisions
from dualmind.data.problems import read_problems, write_problems
from dualmind.data.validation import validate
from dualmind.errors import StorageError
from tests.data.rows import PARAMS, decision_rows, problem_rows

ROOT = Path(__file__).resolve().parents[2]


def test_the_columns_are_those_of_the_rows_in_order() -> None:
    assert decisions.SCHEMA.names == list(DecisionRow.__slots__)
    assert problems.SCHEMA.names == list(problems.ProblemRow.__slots__)


def test_the_same_rows_give_the_same_bytes_in_another_process(tmp_path: Path) -> None:
    write_decisions(tmp_path / "here.parquet", decision_rows())
    code = (
        "import sys, pathlib; from tests.data.rows import decision_rows; "
        "from dualmind.data.decisions import write_decisions; "
        "write_decisions(pathlib.Path(sys.argv[1]), decision_rows())"
    )
    there = tmp_path / "there.parquet"
    environment = {**os.environ, "PYTHONHASHSEED": "7", "TZ": "Asia/Shanghai"}
    subprocess.run([sys.executable, "-c", code, str(there)], check=True, cwd=ROOT, env=environment)
    assert (tmp_path / "here.parquet").read_bytes() == there.read_bytes()


def test_rows_come_back_as_they_were_by_split_in_order(tmp_path: Path) -> None:
    write_decisions(tmp_path / "decisions.parquet", decision_rows())
    write_problems(tmp_path / "problems.parquet", problem_rows())
    own = validate(tmp_path / "decisions.parquet", "household decisions", PARAMS, tmp_path / "decisions.json")
    games = validate(tmp_path / "problems.parquet", "household problems", PARAMS, tmp_path / "problems.json")
    assert read_decisions(own, "train") == [row for row in decision_rows() if row.split == "train"]
    assert read_decisions(own, "valid_unseen") == []
    assert read_problems(games, "valid_unseen") == problem_rows()[3:]


@settings(max_examples=25, deadline=None)
@given(texts=st.lists(st.text(st.characters(exclude_categories=["Cs"])), min_size=1, max_size=5))
def test_any_text_survives_parquet(texts: list[str], tmp_path_factory: pytest.TempPathFactory) -> None:
    path = tmp_path_factory.mktemp("text") / "decisions.parquet"
    write_decisions(path, [replace(decision_rows()[0], candidates=tuple(texts), prompt=texts[0])])
    found = pq.read_table(path).to_pylist()
    assert found[0]["candidates"] == texts
    assert found[0]["prompt"] == texts[0]


def test_reading_leaves_nothing_in_the_home_and_needs_no_network(tmp_path: Path) -> None:
    home = tmp_path / "home"
    home.mkdir()
    code = """
import pathlib, socket, sys
def refuse(*args, **kwargs): raise AssertionError(f"network access: {args}")
socket.socket.connect = socket.getaddrinfo = refuse
from tests.data.rows import PARAMS, decision_rows
from dualmind.data.decisions import read_decisions, write_decisions
from dualmind.data.validation import validate
path = pathlib.Path(sys.argv[1])
write_decisions(path, decision_rows())
print(len(read_decisions(validate(path, "household decisions", PARAMS, path.with_suffix(".json")), "train")))
"""
    environment = {k: v for k, v in os.environ.items() if not k.startswith(("HF_", "XDG_"))} | {"HOME": str(home)}
    command = [sys.executable, "-c", code, str(tmp_path / "decisions.parquet")]
    done = subprocess.run(command, check=True, cwd=ROOT, env=environment, capture_output=True, text=True)
    assert done.stdout == "4\n"
    assert list(home.rglob("*")) == []


def test_a_full_disk_leaves_the_old_file_and_no_half_of_the_new_one(tmp_path: Path) -> None:
    path = tmp_path / "decisions.parquet"
    write_decisions(path, decision_rows())
    before = path.read_bytes()
    code = """
import pathlib, resource, sys
from dataclasses import replace
from tests.data.rows import decision_rows
from dualmind.data.decisions import write_decisions
from dualmind.errors import StorageError
import random
rows = [replace(decision_rows()[0], prompt=random.Random(0).randbytes(20_000).hex())]
resource.setrlimit(resource.RLIMIT_FSIZE, (4096, 4096))  # what a full disk does: a write in the middle fails
try:
    write_decisions(pathlib.Path(sys.argv[1]), rows)
except StorageError as error:
    print(error)
"""
    done = subprocess.run([sys.executable, "-c", code, str(path)], check=True, cwd=ROOT, capture_output=True, text=True)
    assert f"{path} could not be written" in done.stdout
    assert "free some disk space" in done.stdout
    assert path.read_bytes() == before
    assert [file.name for file in tmp_path.iterdir()] == [path.name]


def test_a_folder_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    (tmp_path / "decisions.parquet").mkdir()
    with pytest.raises(StorageError, match=r"decisions\.parquet could not be written"):
        write_decisions(tmp_path / "decisions.parquet", decision_rows())
