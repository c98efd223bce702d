"""Colours and markers that colour-blind readers and grey printers can tell apart."""

COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")
MARKERS = ("o", "s", "^", "D", "v", "P", "X")
BY_NAME = {"LCB": 1, "InfluentialLCB": 0, "Uniform": 2, "easy": 0, "hard": 1} | {
    "the same user, adjusted": 0,
    "as logged": 1,
}
FAINT = "#BBBBBB"


def places(names: list[str]) -> list[int]:
    """Return which colour each series of a figure gets.

    Well-known policies have the same one in every figure; the others take what is left, and only
    when all colours are in use is one used again.
    """
    taken = [BY_NAME[name] for name in names if name in BY_NAME]
    free = [n for n in range(len(COLOURS)) if n not in taken]
    others = [name for name in names if name not in BY_NAME]
    queue = [*free, *range(len(COLOURS))]
    given = {name: queue[n % len(queue)] for n, name in enumerate(dict.fromkeys(others))}
    return [BY_NAME.get(name, given.get(name, 0)) for name in names]
