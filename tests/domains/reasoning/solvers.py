"""Solvers that share nothing with the families: brute force, Python's own parser, simulation on the bare words."""

import itertools
import re
from collections.abc import Callable

import numpy as np


def arithmetic(text: str) -> str:
    if not text.startswith("start"):
        return str(eval(text.removesuffix("=")))
    source = text.removesuffix(" . what is the result ?").replace("start with ", "")
    for words, sign in (("add", "+"), ("subtract", "-"), ("multiply by", "*"), ("divide by", "//")):
        source = source.replace(f" . {words} ", f" ){sign} ")
    return str(eval("(" * source.count(")") + source))


def swaps(text: str) -> str:
    """Everybody's things, after every swap."""
    words = re.sub(
        r"[,.]|\b(?:a|and|the|their|is|with)\b", " ", text
    ).split()  # "alice dancing helga", "bob has red ball"
    holds: dict[str, str] = {}
    for here in range(1, len(words) - 1):
        one, word, other = words[here - 1 : here + 2]
        if word in {"has", "dancing"} and one not in {"who", "each"}:
            holds.setdefault(one, other)
        elif other in {"swap", "switch"} and one in holds:
            holds[one], holds[word] = holds[word], holds[one]
    if words[-1] == "?":
        return next(person for person, thing in holds.items() if thing == words[-3])
    return holds[words[-2]]


def ordering(text: str) -> str:
    """Fill the row from the low end, drop what breaks a clue; the row must be the only one."""
    low_words = ("left of", "newer", "less expensive", "above", "taller")
    high_words = ("right of", "older", "more expensive", "below", "shorter")
    from_high = ("right", "oldest", "most expensive", "last", "shortest")
    ordinals = ["first", "second", "third", "fourth", "fifth", "sixth", "seventh", "eighth", "ninth", "tenth",
                "eleventh", "twelfth"]  # fmt: skip

    def place(words: str) -> tuple[int, bool]:
        found = [ordinals.index(w) + 1 for w in re.findall(r"[a-z]+", words) if w in ordinals]
        return (found[0] if found else 1), any(word in words for word in from_high)

    before: list[tuple[str, str]] = []
    fixed: dict[str, tuple[int, bool]] = {}
    *sentences, question = [part.strip() for part in text.split(" . ")]
    things: set[str] = set()
    for sentence in sentences:
        if ":" in sentence:
            continue
        words = re.sub(r"\bthe (?=\w+ (?:is|are) |\w+$)", "", sentence).split()
        if any(w in sentence for w in (*low_words, *high_words)) and ("than" in words or "of" in words or
                                                                     {"above", "below"} & set(words)):  # fmt: skip
            pair = (words[0], words[-1])
            before.append(pair if any(w in sentence for w in low_words) else pair[::-1])
            things.update(pair)
        else:
            fixed[words[0]] = place(" ".join(words[1:]))
            things.add(words[0])
    number = len(things)
    at = {thing: (number + 1 - p if high else p) for thing, (p, high) in fixed.items()}
    found: list[tuple[str, ...]] = []

    def fill(row: tuple[str, ...]) -> None:
        if len(row) == number:
            found.append(row)
        for thing in sorted(things - set(row)):
            if at.get(thing, len(row) + 1) == len(row) + 1 and all(a in row for a, b in before if b == thing):
                fill((*row, thing))

    fill(())
    assert len(found) == 1, (text, found)
    which, high = place(question)
    return found[0][-which if high else which - 1]


def boolean(text: str) -> str:
    names = {letter: word == "true" for letter, word in re.findall(r"\b([a-z]) is (true|false) \.", text)}
    asked = text.rsplit("what is ", maxsplit=1)[-1].removesuffix(" ?").removesuffix(" is")
    return str(bool(eval(asked, {"__builtins__": {}}, {**names, "true": True, "false": False}))).lower()


def truth(text: str) -> str:
    """Try every assignment; a statement is true if and only if its speaker is honest."""
    *told, asked = text.split(" . ")
    asked = asked.removeprefix(". ")
    people = sorted({word for s in told for word in (s.split()[0], s.replace("that ", "").split()[2 * ("says" in s)])})
    answers = set()
    for values in itertools.product((False, True), repeat=len(people)):
        honest = dict(zip(people, values, strict=True))
        good = True
        for sentence in told:
            words = [word for word in sentence.split() if word != "that"]
            claim = not ("lies" in words or "liar" in words)
            if "says" in words:
                good &= honest[words[0]] == (honest[words[2]] == claim)
            else:
                good &= honest[words[0]] == claim
        if good:
            answers.add(honest[asked.split()[1]])
    assert len(answers) == 1, text
    return "yes" if answers.pop() else "no"


def navigation(text: str) -> str:
    """Complex numbers: east is 1, north is 1j."""
    ways = {"forward": 1j, "up": 1j, "north": 1j, "backward": -1j, "down": -1j, "south": -1j, "right": 1, "east": 1,
            "left": -1, "west": -1}  # fmt: skip
    at, heading = 0j, 1j
    numbers = [int(n) for n in re.findall(r"\d+", text)]
    for sentence in text.rsplit(" ? ", maxsplit=1)[-1].split("."):
        words = sentence.split()
        if words[:1] == ["turn"]:
            heading *= {"left": 1j, "right": -1j, "around": -1}[words[1]]
        elif words and words[0] in {"take", "go", "move"}:
            at += int(words[1]) * (ways.get(words[-1], heading))
    if text.startswith("if"):
        return "no" if at else "yes"
    return f"{numbers[0] + int(at.real)} {numbers[1] + int(at.imag)}"


def brackets(text: str) -> str:
    """Strike out closed pairs until none is left."""
    left = text.rsplit(":", maxsplit=1)[-1].replace(" ", "")
    while (shorter := re.sub(r"\(\)|\[\]|\{\}|<>", "", left)) != left:
        left = shorter
    return " ".join(left[::-1].translate(str.maketrans("([{<", ")]}>")))


def keys(text: str) -> str:
    """The power of a permutation matrix."""
    facts = re.findall(r"(\w+) (?:room holds|key opens) (\w+)", text)
    colours = sorted({colour for fact in facts for colour in fact})
    matrix = np.zeros((len(colours), len(colours)), dtype=int)
    for one, other in facts:
        matrix[colours.index(one), colours.index(other)] = 1
    start, number = re.findall(r"start .*? (\w+) (?:room|key)\b", text)[0], int(re.findall(r"\d+", text)[0])
    row = np.linalg.matrix_power(matrix, number)[colours.index(start)]
    assert row.sum() == 1
    return str(colours[int(row.argmax())])


def counting(text: str) -> str:
    kinds = {
        "fruits": "apple banana blackberr grape nectarine orange peach plum raspberr strawberr",
        "vegetables": "cabbage carrot cauliflower garlic onion potato yam",
        "animals": "bear cat chicken cow dog donkey duck frog goat mouse mice pig rabbit snail snake",
        "musical instruments": "accordion clarinet drum flute piano trombone trumpet violin",
    }
    numbers = {"a": 1, "an": 1, "two": 2, "three": 3, "four": 4, "five": 5, "six": 6, "seven": 7, "eight": 8,
               "nine": 9, "ten": 10, "eleven": 11, "twelve": 12} | {str(n): n for n in range(100)}  # fmt: skip
    told, asked = text.split(" . how many ")
    kind = next(kind for kind in kinds if asked.startswith(kind))
    words, total = told.split(), 0
    for number, thing in itertools.pairwise(words):
        if number in numbers and re.sub(r"(?:y|ies|es|s)$", "", thing) in {
            re.sub(r"(?:y|ies|es|s|e)$", "", stem) for stem in kinds[kind].split()
        } | set(kinds[kind].split()):
            total += numbers[number]
    return str(total)


def sorting(text: str) -> str:
    items = text.rsplit(":", maxsplit=1)[-1].split()
    return " ".join(map(str, sorted(map(int, items))) if items[0].isdigit() else sorted(items))


SOLVERS: dict[str, Callable[[str], str]] = {
    "arithmetic": arithmetic, "swaps": swaps, "ordering": ordering, "boolean": boolean, "truth": truth,
    "navigation": navigation, "brackets": brackets, "keys": keys, "counting": counting, "sorting": sorting,
}  # fmt: skip
