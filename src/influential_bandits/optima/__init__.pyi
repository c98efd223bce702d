"""The public names of ``ib.optima``."""

from .certificate import Certificate as Certificate
from .difficulty import Difficulty as Difficulty
from .integer import IntegerOptimum as IntegerOptimum
from .path import OptimalPath as OptimalPath
from .path import Optimum as Optimum
