"""ALFWorld's own engine (the optional extra ``alfworld``), and play that is the same in both engines.

``python -m tests.domains.household.stock`` records the transcripts that the normal tests replay; it needs the extra.
"""

import json
import lzma
import random
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from dualmind.domains.household.engine import HouseholdEngine
from dualmind.domains.household.game import Game
from dualmind.domains.household.generate import generate_games
from dualmind.domains.household.pddl import parse_problem, to_pddl

ROOT = Path(__file__).resolve().parents[3]
REAL_GAMES = ROOT / "../shared/data/alfworld/games.jsonl.xz"
RECORDED = ROOT / "tests/recorded/alfworld_transcripts.jsonl.xz"
RANDOM_STEPS = 40


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
    """Steps of one game: by a script, or at random with a bias to commands that change something."""
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
    near = [command for command in commands if not command.startswith("go to ")]
    return rng.choice(near if rng.random() < 0.7 else commands)


def real_games(every: int, offset: int = 0) -> Iterator[tuple[Game, str, list[str]]]:
    """Each ``every``-th real game with its PDDL and walkthrough."""
    with lzma.open(REAL_GAMES, "rt", encoding="utf-8") as file:
        for index, line in enumerate(file):
            if index % every == offset:
                raw = json.loads(line)
                layout = raw["task"].rsplit("-", 1)[-1]
                game = parse_problem(
                    raw["problem"], name=raw["trial"], split=raw["split"], layout=layout, goal_text=raw["goal"]
                )
                yield game, raw["problem"], [*raw["walkthrough"], "look", "inventory"]


def solution(game: Game) -> list[str]:
    """A walkthrough of a generated game: each admissible take, treat and move toward the goal, by plain search order."""
    from dualmind.domains.household.belief import Belief
    from dualmind.domains.household.expert import LocationPrior, Searcher

    engine, searcher = HouseholdEngine(game), Searcher(game.goal, LocationPrior.learn([game]))
    belief, done, commands = Belief(engine.reset()), False, []
    while not done and len(commands) < 60:
        commands.append(searcher.choose(belief, engine.admissible_commands()).command)
        observation, _, done = engine.step(commands[-1])
        belief.update(commands[-1], observation)
    return commands


def _record() -> None:
    games = list(real_games(every=400, offset=7))
    for game in generate_games({"train": 6, "valid_unseen": 6}, seed=11):
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
