"""Reads real ALFWorld games: the folder tree that ``alfworld-download`` makes, or one compact ``.jsonl.xz`` file."""

import hashlib
import json
import lzma
import re
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from dualmind.domains.base import SPLITS, Split
from dualmind.domains.household.game import Game
from dualmind.domains.household.pddl import parse_problem
from dualmind.errors import GameError

_TASK_TEXT = re.compile(r"Your task is to: ([^\"\\]+)")


@dataclass(frozen=True, slots=True)
class _Raw:
    """One game before its PDDL is read."""

    split: Split
    task: str  # "pick_and_place_simple-Mug-None-Desk-301": type, object, movable, receptacle, room
    trial: str
    goal: str
    problem: str
    place: str  # file and line, for messages


def load_games(path: Path, num_games: Mapping[Split, int]) -> list[Game]:
    """Read games of each split.

    Of more games than are wanted, those with the smallest MD5 of their trial name are taken: a sample that is spread
    over tasks and rooms and does not change when games are added elsewhere. A split with fewer games gives all.

    Args:
        path: a folder with ``<split>/<task>/<trial>/game.tw-pddl`` below it, or a ``.jsonl.xz`` file.
        num_games: games wanted of each split, >= 0.

    Returns:
        Games by split in the order of SPLITS, within a split by the MD5 of their trial name.

    Raises:
        GameError: nothing is at ``path``, a file is broken, two games share a name, or a wanted split has no game.
    """
    if not path.exists():
        raise GameError(
            f"household.games: nothing is at {path}; give a folder of game.tw-pddl files or a .jsonl.xz file"
        )
    found: dict[Split, dict[str, _Raw]] = {split: {} for split in SPLITS}
    for raw in _read_tree(path) if path.is_dir() else _read_lines(path):
        if any(raw.trial in games for games in found.values()):
            raise GameError(f"{raw.place}: a game named {raw.trial} was read before; remove one of the two")
        found[raw.split][raw.trial] = raw
    games: list[Game] = []
    for split, wanted in num_games.items():
        if wanted and not found[split]:
            raise GameError(f"{path} has no game of split {split!r}; set household.num_games.{split} to 0 or add games")
        games += [_parse(raw) for raw in sorted(found[split].values(), key=_sample_order)[:wanted]]
    return games


def _sample_order(raw: _Raw) -> str:
    return hashlib.md5(raw.trial.encode(), usedforsecurity=False).hexdigest()


def _parse(raw: _Raw) -> Game:
    try:
        return parse_problem(
            raw.problem, name=raw.trial, split=raw.split, layout=raw.task.rsplit("-", 1)[-1], goal_text=raw.goal
        )
    except GameError as error:
        raise GameError(f"{raw.place}: {error}") from error


def _read_lines(path: Path) -> Iterator[_Raw]:
    """Games of a .jsonl.xz file, one a line."""
    number = 0
    try:
        with lzma.open(path, "rt", encoding="utf-8") as file:
            for number, line in enumerate(file, start=1):
                yield _as_raw(line, f"{path}:{number}")
    except (lzma.LZMAError, EOFError, UnicodeDecodeError) as error:
        raise GameError(
            f"{path} is cut short or damaged after line {number} ({error}); fetch the file again"
        ) from error
    if number == 0:
        raise GameError(f"{path} is empty; fetch the file again")


def _as_raw(line: str, place: str) -> _Raw:
    try:
        data: dict[str, Any] = json.loads(line)
        raw = _Raw(data["split"], data["task"], data["trial"], data["goal"], data["problem"], place)
    except (json.JSONDecodeError, KeyError, TypeError) as error:
        raise GameError(f"{place}: not a game with split, task, trial, goal and problem ({error!r})") from error
    if raw.split not in SPLITS:
        raise GameError(f"{place}: split {raw.split!r} is not one of {', '.join(SPLITS)}")
    return raw


def _read_tree(root: Path) -> Iterator[_Raw]:
    """Games of a folder tree; those with sliced or movable objects are left out, as ALFWorld does, and counted."""
    files = sorted(root.rglob("game.tw-pddl"))
    if not files:
        raise GameError(f"household.games: {root} has no game.tw-pddl below it; run `alfworld-download` to fill it")
    skipped = 0
    for file in files:
        parts = file.relative_to(root).parts
        split = next((part for part in (root.name, *parts) if part in SPLITS), None)
        if split is None or len(parts) < 3:
            raise GameError(
                f"{file} is not at <split>/<task>/<trial>/game.tw-pddl with split one of {', '.join(SPLITS)}"
            )
        task, trial = parts[-3], parts[-2]
        data = _game_file(file)
        if "movable" in task or "Sliced" in task or data.get("solvable") is False:
            skipped += 1
            continue
        text = _TASK_TEXT.search(data["grammar"])
        if text is None:
            raise GameError(f'{file}: its grammar has no "Your task is to: ..."; fetch the game file again')
        yield _Raw(split, task, trial, text[1].strip(), data["pddl_problem"], str(file))
    if skipped:
        print(f"{root}: {skipped} of {len(files)} games left out (sliced, movable or unsolvable)", file=sys.stderr)


def _game_file(file: Path) -> dict[str, Any]:
    try:
        data: dict[str, Any] = json.loads(file.read_text(encoding="utf-8"))
    except (json.JSONDecodeError, UnicodeDecodeError) as error:
        raise GameError(f"{file} is not a JSON game file ({error}); fetch it again") from error
    if not isinstance(data, dict) or not {"grammar", "pddl_problem"} <= data.keys():
        raise GameError(f"{file} has no grammar or pddl_problem; fetch it again")
    return data
