"""Load what a service needs and compile what it calls, before it is forked."""

import uvicorn  # noqa: F401
import uvloop  # noqa: F401

from influential_bandits.live import service, writer  # noqa: F401
from influential_bandits.live.settings import make_policy
from influential_bandits.live.states import AgentState, Arms, FleetState

ARMS = Arms(("a", "b", "c"))


def warm_up():
    for name in ("InfluentialLCB", "ModelLCB", "Uniform"):
        state = AgentState.start(make_policy(name), ARMS, 0, 0)
        state.observe(state.pull(state.choose(ARMS.mask())), 0.5)
        AgentState.unpack(state.pack(), make_policy(name), ARMS.names, 0, 0)
    fleet = FleetState(make_policy("FleetLCB", shared=True), ARMS)
    user = fleet.of(1)
    user.observe(user.pull(user.choose(ARMS.mask())), 0.5)
    user.expected_losses()
    fleet.pack()


warm_up()
