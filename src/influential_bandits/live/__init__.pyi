"""The public names of the service; ``__init__.py`` loads them when first used."""

from .answers import LiveDecision as LiveDecision
from .client import Client as Client
from .serving import serve as serve
from .serving import serve_in_background as serve_in_background
from .settings import Settings as Settings
from .shop import make_shop_population as make_shop_population
from .shop import run_shop as run_shop
