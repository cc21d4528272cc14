"""Closed pools of words. Small, so that a word-level model meets each often; most occur in BIG-Bench Hard too."""

PLAYERS = ("alice", "bob", "claire", "dave", "eve", "fred", "gertrude")
GOLFERS = ("ada", "amy", "ana", "dan", "eli", "eve", "joe", "mel", "mya", "rob")
PARTNERS = ("helga", "izzi", "jamie", "karl", "lola", "melissa", "ophelia", "patrick", "rodrigo", "sam")
NAMES = tuple(sorted({*PLAYERS, *GOLFERS, *PARTNERS}))

COLOURS = (
    "black", "blue", "brown", "gold", "gray", "green", "lime", "orange", "pink", "purple", "red", "silver", "tan",
    "violet", "white", "yellow",
)  # fmt: skip
BIRDS = ("cardinal", "crow", "falcon", "hawk", "hummingbird", "owl", "quail", "raven", "robin")
VEHICLES = ("bus", "convertible", "hatchback", "limousine", "minivan", "sedan", "tractor", "truck")

FRUITS = {
    "apple": "apples", "banana": "bananas", "blackberry": "blackberries", "grape": "grapes",
    "nectarine": "nectarines", "orange": "oranges", "peach": "peaches", "plum": "plums", "raspberry": "raspberries",
    "strawberry": "strawberries",
}  # fmt: skip
VEGETABLES = {
    "cabbage": "cabbages", "carrot": "carrots", "cauliflower": "cauliflowers", "garlic": "garlics",
    "onion": "onions", "potato": "potatoes", "yam": "yams",
}  # fmt: skip
ANIMALS = {
    "bear": "bears", "cat": "cats", "chicken": "chickens", "cow": "cows", "dog": "dogs", "donkey": "donkeys",
    "duck": "ducks", "frog": "frogs", "goat": "goats", "mouse": "mice", "pig": "pigs", "rabbit": "rabbits",
    "snail": "snails", "snake": "snakes",
}  # fmt: skip
INSTRUMENTS = {
    "accordion": "accordions", "clarinet": "clarinets", "drum": "drums", "flute": "flutes", "piano": "pianos",
    "trombone": "trombones", "trumpet": "trumpets", "violin": "violins",
}  # fmt: skip
KINDS = {"fruits": FRUITS, "vegetables": VEGETABLES, "animals": ANIMALS, "musical instruments": INSTRUMENTS}
KIND_OF = {noun: kind for kind, nouns in KINDS.items() for noun in nouns}
SINGULAR = {many: one for nouns in KINDS.values() for one, many in nouns.items()}

NUMBER_WORDS = ("two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven", "twelve")
NUMBER_OF = {word: number for number, word in enumerate(NUMBER_WORDS, start=2)}
ORDINALS = (
    "first", "second", "third", "fourth", "fifth", "sixth", "seventh", "eighth", "ninth", "tenth", "eleventh",
    "twelfth",
)  # fmt: skip
