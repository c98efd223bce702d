"""Colours and markers that colour-blind readers and grey printers can tell apart."""

COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")
MARKERS = ("o", "s", "^", "D", "v", "P", "X")
BY_NAME = {"LCB": 1, "InfluentialLCB": 0, "Uniform": 2, "easy": 0, "hard": 1}


def place(name: str, position: int) -> int:
    """Return which colour a series gets: a policy has the same one in every figure."""
    return BY_NAME.get(name, position) % len(COLOURS)


def rgba(colour: str, alpha: float) -> str:
    """Return a colour with transparency for the browser."""
    red, green, blue = (int(colour[i : i + 2], 16) for i in (1, 3, 5))
    return f"rgba({red},{green},{blue},{alpha})"
