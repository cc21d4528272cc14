"""Is another command as good as the searcher's? Judged by what it costs, not by whether it is the same."""

from dualmind.domains.household.belief import NEW, Belief
from dualmind.domains.household.domain import MAX_STEPS, HouseholdEpisode
from dualmind.domains.household.expert import LocationPrior, Searcher
from dualmind.domains.household.game import Game


def as_good(game: Game, prior: LocationPrior, belief: Belief, command: str, wanted: str) -> bool:
    """May ``command`` be given in place of ``wanted``?

    It may where the searcher goes to a receptacle for the first time and so does ``command``, to one of a kind that
    held the thing in training games: which one holds it now cannot be known, and none can be new twice, so no loop
    passes. Else it may if the searcher, going on from there, wins after no more commands than after ``wanted``.

    Args:
        game: which is played.
        prior: the searcher's.
        belief: what has been seen, after the commands given so far.
        command: any admissible one.
        wanted: the searcher's.
    """
    if command == wanted:
        return True
    if _visits(belief, wanted) and (kind := _visits(belief, command)):
        sought = [thing for thing in (game.goal.object_type, game.goal.light) if thing]
        return any(prior.worth(thing, kind) > 0 for thing in sought)
    cost = commands_to_win(game, prior, [*belief.tried, command])
    best = commands_to_win(game, prior, [*belief.tried, wanted])
    return cost is not None and (best is None or cost <= best)


def commands_to_win(game: Game, prior: LocationPrior, given: list[str]) -> int | None:
    """Commands that the searcher needs to win after those given; None where it does not within the usual limit."""
    episode = HouseholdEpisode(game, max_steps=len(given) + MAX_STEPS)
    _, info = episode.reset()
    won = False
    for command in given:
        _, _, won, _, info = episode.step(command)
    searcher = Searcher(game.goal, prior)
    for needed in range(MAX_STEPS + 1):
        if won:
            return needed
        _, _, won, _, info = episode.step(searcher.choose(episode.belief, info["admissible_commands"]).command)
    return None


def _visits(belief: Belief, command: str) -> str:
    """Kind of the receptacle that a command visits for the first time, or nothing."""
    place = command.removeprefix("go to ")
    return place.split()[0] if belief.receptacles.get(place) == NEW else ""
