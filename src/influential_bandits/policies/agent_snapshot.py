"""Agents as bytes: the form in which a service keeps thousands of them."""

from __future__ import annotations

import json
import struct
import zlib
from collections.abc import Sequence

import numpy as np

from influential_bandits.errors import InvalidInput
from influential_bandits.policies.agent import Agent, Ticket
from influential_bandits.policies.contract import Policy

HEAD = struct.Struct("<4sII")  # what it is, checksum, and length of the JSON part
MAGIC = b"IBA2"


def pack_agent(agent: Agent) -> bytes:
    """Return the state of an agent as bytes; the policy and the names of arms are not part of it.

    Examples
    --------
    >>> import influential_bandits as ib
    >>> agent = ib.Agent(ib.LCB(), arms=["tea", "coffee"])
    >>> ticket = agent.pull()
    >>> unpack_agent(pack_agent(agent), ib.LCB(), ["tea", "coffee"]).pending
    {1: Ticket(round=1, arm=0, name='tea', memo=())}
    """
    about = {
        "n_arms": agent.n_arms,
        "round": agent.round,
        "time": None if agent.time is None else agent.time.hex(),
        "retired": sorted(agent.retired),
        "pending": [[t.round, t.arm, [v.hex() for v in t.memo]] for t in agent.pending.values()],
    }
    head = json.dumps(about, separators=(",", ":")).encode()
    ints, floats = agent.__getstate__()["_arrays"]
    body = head + ints.astype("<i8").tobytes() + floats.astype("<f8").tobytes()
    return HEAD.pack(MAGIC, zlib.crc32(body), len(head)) + body


def unpack_agent(
    blob: bytes,
    policy: Policy,
    arms: Sequence[str],
    seed: int = 0,
    instance_number: int = 0,
) -> Agent:
    """Return the agent of :func:`pack_agent`; InvalidInput if the bytes do not fit.

    ``arms`` may name arms that have come since; the agent has those that it had.
    """
    if len(blob) < HEAD.size:
        raise InvalidInput("the snapshot is cut off")
    magic, checksum, length = HEAD.unpack_from(blob)
    body = blob[HEAD.size :]
    if magic != MAGIC or zlib.crc32(body) != checksum:
        raise InvalidInput("the snapshot is damaged, or of another version")
    about = json.loads(body[:length])
    agent = Agent(policy, arms[: about["n_arms"]], seed, instance_number=instance_number)
    state = agent.__getstate__()
    ints, floats = state["_arrays"]
    values = np.frombuffer(body, np.uint8, offset=length)
    if about["n_arms"] != agent.n_arms or len(values) != ints.nbytes + floats.nbytes:
        raise InvalidInput("the snapshot is of another policy, or of other arms")
    names = agent.arm_names
    pending = {
        t: Ticket(t, arm, names[arm], tuple(float.fromhex(v) for v in memo))
        for t, arm, memo in about["pending"]
    }
    state.update(
        round=about["round"],
        time=None if about["time"] is None else float.fromhex(about["time"]),
        retired=set(about["retired"]),
        pending=pending,
        _arrays=(
            values[: ints.nbytes].view("<i8").astype(np.int64),
            values[ints.nbytes :].view("<f8").astype(np.float64),
        ),
    )
    agent.__setstate__(state)
    return agent
