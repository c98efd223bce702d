"""Live decisions: the policies behind a durable service, and the client that asks it."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
