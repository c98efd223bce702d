"""Logs of events: what an EventLog is, and how files of any kind become one."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
