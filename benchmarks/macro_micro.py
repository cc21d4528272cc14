"""Bugs found and repaired with equal test runs: macro/micro with a skill library against a flat policy and chance.

Held-out programs. Both policies have as many parameters, the same features and as many training episodes of the same
budget; nothing was chosen on the held-out programs. Intervals resample seeds and programs.

    python -m benchmarks.macro_micro
"""

import time

import numpy as np
import torch
from numpy.typing import NDArray

from benchmarks.results_file import Row, write_rows
from dualmind.agent.macro import HOUSEHOLD_SKILLS, SKILLS, play_flat, play_macro
from dualmind.agent.skills import SkillLibrary
from dualmind.domains.debugging.bugs import generate_bugs, rehearse
from dualmind.domains.debugging.domain import BUDGET, Debugging, DebuggingEpisode, choose
from dualmind.evaluation.intervals import Interval, paired_bootstrap
from dualmind.learning.options import build, num_parameters, roll, train

COMMAND = "python -m benchmarks.macro_micro"
SEEDS, TRAIN, HELD_OUT = 5, 100, 100
UPDATES, GROUP, COPIES = 30, 8, 6
RESAMPLES = 5000
Array = NDArray[np.float64]


def measure(seed: int, training: list[DebuggingEpisode], held_out: list[DebuggingEpisode]) -> dict[str, Array]:
    """Train both policies, and say which held-out bugs each of them repairs (bugs,)."""
    library = SkillLibrary([*SKILLS, *HOUSEHOLD_SKILLS])
    players = {"macro/micro": lambda episode: play_macro(episode, library), "flat": play_flat, "random": play_flat}
    nets = {"macro/micro": build(("macro", "micro"), seed), "flat": build(("flat",), seed), "random": {}}
    solved: dict[str, Array] = {}
    for name, player in players.items():
        rng = np.random.default_rng([seed, 1])
        begun, runs = time.monotonic(), 0
        if nets[name]:
            after = (lambda played: _record(library, played)) if name == "macro/micro" else (lambda _: None)
            runs = train(
                nets[name], training, player, rng, updates=UPDATES, group=GROUP, copies=COPIES, after=after
            )  # fmt: skip
        played, _ = roll(held_out, player, nets[name], rng, greedy=True)
        solved[name] = np.array([own.solved for own in played], dtype=np.float64)
        print(
            f"seed {seed} {name}: {solved[name].mean():.3f} of held-out bugs repaired, {num_parameters(nets[name])} "
            f"parameters, {runs} training runs, {time.monotonic() - begun:.0f} s", flush=True,
        )  # fmt: skip
    offered = [skill.name for skill in library.offered(Debugging.name)]
    print(f"seed {seed}: skills kept: {', '.join(offered)}", flush=True)
    return solved


def _record(library: SkillLibrary, played: list) -> None:  # type: ignore[type-arg]  # of Played
    for own in played:
        for skill, success in own.uses:
            library.record(skill, Debugging.name, success)


def ratio(top: Array, bottom: Array) -> Interval:
    """Ratio of means of (seeds, bugs), with a percentile bootstrap interval over seeds and bugs, both paired."""
    rng = np.random.default_rng(0)
    found = np.empty(RESAMPLES)
    for i in range(RESAMPLES):
        rows, columns = (rng.integers(size, size=size) for size in top.shape)
        chosen = np.ix_(rows, columns)
        found[i] = top[chosen].mean() / max(bottom[chosen].mean(), 1e-9)
    low, high = np.percentile(found, (2.5, 97.5))
    return Interval(float(top.mean() / bottom.mean()), float(low), float(high))


def expert(episodes: list[DebuggingEpisode]) -> float:
    """Share that the hand-written debugger repairs."""
    solved = 0.0
    for episode in episodes:
        episode.reset()
        ended = False
        while not ended:
            _, _, done, truncated, _ = episode.step(choose(episode)[0])
            ended = done or truncated
        solved += episode.solved
    return solved / len(episodes)


def main() -> None:
    """Measure and write."""
    torch.set_num_threads(1)
    begun = time.monotonic()
    bugs = generate_bugs({"train": TRAIN, "valid_unseen": HELD_OUT}, seed=0)
    episodes = [DebuggingEpisode(bug, results) for bug, results in zip(bugs, rehearse(bugs), strict=True)]
    training, held_out = episodes[:TRAIN], episodes[TRAIN:]
    print(f"{len(bugs)} bugs in {time.monotonic() - begun:.0f} s", flush=True)
    tries = [measure(seed, training, held_out) for seed in range(SEEDS)]
    solved = {name: np.stack([own[name] for own in tries]) for name in tries[0]}  # (seeds, bugs)
    shares = {name: float(own.mean()) for name, own in solved.items()}
    words = f"of {HELD_OUT} held-out bugs with {BUDGET} test runs each: " + ", ".join(
        f"{name} {share:.3f}" for name, share in [*shares.items(), ("hand-written expert", expert(held_out))]
    )
    ours, flat, chance = solved["macro/micro"], solved["flat"], solved["random"]
    over = paired_bootstrap(ours.mean(0).tolist(), flat.mean(0).tolist(), np.random.default_rng(0))

    def row(found: Interval, against: str, unit: str, target: float | None = None) -> Row:
        return Row.of(
            found, target=target, unit=unit, begun=begun, baseline=words, seeds=SEEDS, command=COMMAND,
            claim=f"bugs found and repaired with equal test runs, macro/micro {against}",
        )  # fmt: skip

    rows = [
        row(ratio(ours, flat), "against a flat policy", "times", 1.62),
        row(over, "less a flat policy", "share of bugs"),
        row(ratio(ours, chance), "against chance", "times"),
    ]
    write_rows("macro_micro", rows)
    for own in rows:
        print(f"{own.claim}: {own.value:.3f} [{own.low:.3f}, {own.high:.3f}] {own.unit} ({own.baseline})", flush=True)


if __name__ == "__main__":
    main()
