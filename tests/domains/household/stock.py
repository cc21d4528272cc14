"""ALFWorld's own engine (the optional extra ``alfworld``), and play that is the same in both engines.

``python -m tests.domains.household.stock`` records the transcripts that the normal tests replay; it needs the extra.
"""

import itertools
import json
import lzma
import random
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from dualmind.domains.household.engine import HouseholdEngine
from dualmind.domains.household.game import Game
from dualmind.domains.household.generate import generate_games
from dualmind.domains.household.pddl import parse_problem, to_pddl

ROOT = Path(__file__).resolve().parents[3]
REAL_GAMES = ROOT / "../shared/data/alfworld/games.jsonl.xz"
needs_real_games = pytest.mark.skipif(not REAL_GAMES.is_file(), reason=f"the real games are not at {REAL_GAMES}")
RECORDED = ROOT / "tests/recorded/alfworld_transcripts.jsonl.xz"
RANDOM_STEPS = 40
# how often random play uses a verb: uniform play mostly walks about and would hardly ever treat, slice or put down
WEIGHTS = {
    "go": 0.25, "take": 3.0, "move": 2.0, "open": 3.0, "close": 0.3, "look": 1.0, "examine": 0.7, "inventory": 0.2,
    "use": 2.0, "heat": 3.0, "cool": 3.0, "clean": 3.0, "slice": 5.0, "help": 0.03,
}  # fmt: skip


@dataclass(frozen=True)
class Step:
    """What an engine says after a command; the first step of a game has none."""

    command: str
    observation: str
    commands: list[str]
    reward: float
    done: bool


class StockEngine:
    """ALFWorld's TextWorld environment behind the methods of ours."""

    def __init__(self, problem: str, goal_text: str) -> None:
        import alfworld
        import textworld
        from alfworld.agents.environment.alfred_tw_env import AlfredDemangler
        from textworld.envs import PddlEnv

        data = Path(alfworld.__file__).parent / "data"
        grammar = (data / "alfred.twl2").read_text().replace("UNKNOWN GOAL", goal_text.removesuffix("."))
        game = {"pddl_domain": (data / "alfred.pddl").read_text(), "grammar": grammar, "pddl_problem": problem}
        infos = textworld.EnvInfos(admissible_commands=True, won=True)
        self._env = AlfredDemangler(PddlEnv(infos), shuffle=False)
        with tempfile.NamedTemporaryFile("w", suffix=".tw-pddl") as file:
            json.dump({**game, "solvable": True, "walkthrough": []}, file)
            file.flush()
            argv = list(sys.argv)
            self._env.load(file.name)
            sys.argv[:] = argv  # the planner's translator overwrites them

    def reset(self) -> str:
        self._state = self._env.reset()
        return str(self._state.feedback)

    def step(self, command: str) -> tuple[str, float, bool]:
        self._state, reward, done = self._env.step(command)
        return str(self._state.feedback), float(reward), bool(done)

    def admissible_commands(self) -> list[str]:
        return list(self._state.admissible_commands)


def play(engine: Any, script: list[str] | random.Random) -> Iterator[Step]:
    """Steps of one game, going on after a win: by a script, or at random by WEIGHTS."""
    observation = engine.reset()
    commands = engine.admissible_commands()
    yield Step("", observation, commands, 0.0, False)
    for index in range(len(script) if isinstance(script, list) else RANDOM_STEPS):
        command = script[index] if isinstance(script, list) else choose(commands, script)
        observation, reward, done = engine.step(command)
        commands = engine.admissible_commands()
        yield Step(command, observation, commands, reward, done)


def choose(commands: list[str], rng: random.Random) -> str:
    if rng.random() < 0.03:
        return "take nothing 9 from here 1"  # not admissible anywhere
    return rng.choices(commands, [WEIGHTS[command.split(" ")[0]] for command in commands])[0]


def real_games(every: int, offset: int = 0) -> Iterator[tuple[Game, str, list[str]]]:
    """Each ``every``-th real game with its PDDL and walkthrough."""
    with lzma.open(REAL_GAMES, "rt", encoding="utf-8") as file:
        for line in itertools.islice(file, offset, None, every):
            raw = json.loads(line)
            layout = raw["task"].rsplit("-", 1)[-1]
            game = parse_problem(
                raw["problem"], name=raw["trial"], split=raw["split"], layout=layout, goal_text=raw["goal"]
            )
            yield game, raw["problem"], [*raw["walkthrough"], "look", "inventory"]


def odd_games() -> Iterator[tuple[Game, str, list[str]]]:
    """Real games that hold a thing without a type, in itself or in several objects at once, with a tour of each.

    They are about one in a hundred, so a sample of games easily has none.
    """
    for game, problem, _ in real_games(every=1):
        if any(not t.type or len(t.within or ()) > 1 or t.id in (t.within or ()) for t in game.things):
            yield game, problem, tour(game)


def tour(game: Game) -> list[str]:
    """Look into every receptacle and every object that can hold others, then put the object back."""
    name, commands = game.names(), []
    for r in game.receptacles:
        commands += [f"go to {name[r.id]}", f"open {name[r.id]}", "look"]
        for t in game.things:
            if r.id in t.inside and "isreceptacleobject" in t.flags:
                what, where = name[t.id], name[r.id]
                commands += [f"take {what} from {where}", f"examine {what}", f"move {what} to {where}"]
    return commands


def solution(game: Game) -> list[str]:
    """A walkthrough of a generated game: takes, treatments and moves toward the goal, as the searcher finds them."""
    from dualmind.domains.household.belief import Belief
    from dualmind.domains.household.expert import LocationPrior, Searcher

    engine, searcher = HouseholdEngine(game), Searcher(game.goal, LocationPrior.learn([game]))
    commands: list[str] = []
    belief, done = Belief(engine.reset()), False
    while not done and len(commands) < 60:
        commands.append(searcher.choose(belief, engine.admissible_commands()).command)
        observation, _, done = engine.step(commands[-1])
        belief.update(commands[-1], observation)
    return commands


def _record() -> None:
    games = list(real_games(every=220, offset=7)) + list(itertools.islice(odd_games(), 0, None, 7))
    for game in generate_games({"train": 6}, seed=11):
        games.append((game, to_pddl(game), solution(game)))
    lines = []
    for number, (game, problem, walkthrough) in enumerate(games):
        stock = StockEngine(problem, game.goal_text)
        for script in (walkthrough, random.Random(number)):
            steps = [[s.command, s.observation, s.commands, s.reward, s.done] for s in play(stock, script)]
            lines.append(json.dumps({"game": game.to_json(), "steps": steps}))
        print(f"{number + 1}/{len(games)} {game.id}", flush=True)
    RECORDED.parent.mkdir(exist_ok=True)
    RECORDED.write_bytes(lzma.compress("\n".join(lines).encode(), preset=9))


if __name__ == "__main__":
    _record()
