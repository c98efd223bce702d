"""Files of fleets, spoilt, then loaded and served with.

The seal, and that of each part within, are all that a file is asked for.
"""

import influential_bandits as ib
from hostile.judging import LOST, OTHER, RAW, Failed, demand, prepared, tell
from hostile.mutating import mutate_bytes
from influential_bandits.errors import InfluentialBanditsError
from influential_bandits.files import read_about, read_table, write_table

USERS = ("ann", "bob", "cy", "di")


@prepared
def compiled():
    """Serve once, so that everything is compiled."""
    fleet = ib.Fleet(arms=3)
    fleet.observe(fleet.pull("ann"), 0.5)
    fleet.expected_losses("ann")
    fleet.remember("bob", [0], [0.5])


def served(draw):
    """Return a fleet after some rounds, with late losses, and arms that came and went."""
    fleet = ib.Fleet(arms=draw.choice((2, 3, ["a", "b", "c"])), history=draw.random() < 0.5)
    serve_on(draw, fleet, draw.choice((0, 1, 12, 40, 90)))
    if draw.random() < 0.3:
        fleet.retire_arm(draw.randrange(fleet.n_arms))
    if draw.random() < 0.3 and fleet.users:
        fleet.forget(draw.choice(fleet.users))
    return fleet


def serve_on(draw, fleet, rounds):
    """Serve some rounds; every choice must be an arm on offer."""
    waiting = list(fleet.pending.values())
    for n in range(rounds):
        ticket = fleet.pull(draw.choice(USERS))
        on_offer = 0 <= ticket.arm < fleet.n_arms and ticket.arm not in fleet.retired
        demand(on_offer, RAW, f"chose arm {ticket.arm}")
        waiting.append(ticket)
        while waiting and draw.random() < 0.6:
            fleet.observe(waiting.pop(draw.randrange(len(waiting))), draw.gauss(0.5, 0.3))
        if n == 20 and draw.random() < 0.5:
            fleet.add_arm()


def spoil_parts(draw, path):
    """Spoil, drop or double parts of a file whose seal then holds; return what was done."""
    about, table = read_about(path), read_table(path)
    parts, said = table.to_pylist(), []
    for _ in range(draw.choice((1, 1, 2))):
        number = draw.randrange(len(parts))
        change = draw.choice(("bytes", "drop", "double"))
        if change == "bytes":
            parts[number]["state"] = mutate_bytes(draw, parts[number]["state"])[0]
        elif change == "drop" and len(parts) > 1:
            del parts[max(number, 1)]
        else:
            parts.append(parts[number])
        said.append(f"part {number}: {change}")
    write_table(path, type(table).from_pylist(parts, table.schema), about)
    return "; ".join(said)


def play(draw, home):
    """Load a spoilt file and serve on: it is refused, or goes on."""
    compiled()
    fleet, path, kind = served(draw), home / "fleet.parquet", draw.random()
    fleet.save(path)
    if kind > 0.9:
        tell(f"{fleet!r}: a good file")
        require_same(fleet, path)
        return
    if kind < 0.5:
        raw, said = mutate_bytes(draw, path.read_bytes())
        path.write_bytes(raw)
    else:
        said = spoil_parts(draw, path)
    tell(f"{fleet!r}: {said}")
    again = ib.Fleet.load(path)
    serve_on(draw, again, 30)
    for user in again.users:
        again.expected_losses(user)
    again.save(path)


def require_same(fleet, path):
    """A good file is loaded, and serves like the fleet that was saved."""
    try:
        again = ib.Fleet.load(path)
    except InfluentialBanditsError as error:
        raise Failed(LOST, f"what it learnt cannot be loaded: {error}") from error
    for n in range(20):
        first, second = (one.pull(USERS[n % 4]) for one in (fleet, again))
        demand(first == second, OTHER, f"pulls {second} instead of {first} when loaded")
        fleet.observe(first, 0.5)
        again.observe(second, 0.5)
