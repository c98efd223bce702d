"""The public names of ``ib.logs``."""

from .controls import Control as Control
from .log import EventLog as EventLog
from .membership import Membership as Membership
from .merging import merge_rare_arms as merge_rare_arms
from .options import ChunkSizes as ChunkSizes
from .partitions import Partition as Partition
from .partitions import PartitionedLog as PartitionedLog
from .partitions import open_partitions as open_partitions
from .partitions import stream_log as stream_log
from .reading import read_log as read_log
