"""Load what a service needs and compile what it calls, before it is forked."""

import msgspec
import psycopg  # noqa: F401
import uvicorn  # noqa: F401
import uvloop  # noqa: F401

from benchmarks.live.hammering import EXPERIMENTS
from influential_bandits.live import service, writer  # noqa: F401
from influential_bandits.live.preparing import prepare
from influential_bandits.live.settings import Settings

for settings in EXPERIMENTS.values():
    prepare(msgspec.convert(settings, Settings))
