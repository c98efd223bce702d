"""Trajectory: placeholder"""
from dataclasses import dataclass
from typing import Any
@dataclass
class Trajectory:
    instances: Any; policy: Any; noise: Any; seeds: Any; checkpoints: Any; counts: Any; expected_loss: Any; arms: Any
