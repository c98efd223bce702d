"""The public names of ``ib.optima``."""

from .difficulty import Difficulty as Difficulty
from .integer import IntegerOptimum as IntegerOptimum
from .path import Certificate as Certificate
from .path import OptimalPath as OptimalPath
from .path import Optimum as Optimum
