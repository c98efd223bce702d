"""What is tried: where it is written, how many cases, and how long one may take."""

from typing import NamedTuple


class Subject(NamedTuple):
    """A module with ``play(draw, home)``, or another function of it."""

    module: str
    function: str = "play"
    share: float = 1.0  # of the cases asked for: less where one takes long
    suite: int = 10  # cases in the ordinary suite
    seconds: float = 20.0  # after which a case hangs


SUBJECTS = {
    "agent files": Subject("agents", suite=20),
    "fleet files": Subject("fleets", suite=20),
    "extreme losses": Subject("losses", suite=15),
    "study pieces": Subject("pieces", "play_study", share=0.2, suite=5),
    "arena pieces": Subject("pieces", "play_arena", share=0.2, suite=5),
    "read errors": Subject("read_errors", share=0.1, suite=6),
    "killed saves": Subject("kills", "play_save", share=0.2, suite=8),
    "killed commands": Subject("kills", "play_command", share=0.03, suite=3, seconds=60.0),
    "text logs": Subject("text_logs", suite=25),
    "Parquet folders": Subject("parquet_folders", share=0.3, suite=16),
    "model files": Subject("json_files", "play_model", suite=30),
    "instance files": Subject("json_files", "play_instance", suite=30),
    "population files": Subject("json_files", "play_population", suite=20),
    "JSON bombs": Subject("json_files", "play_bomb", share=0.2, suite=8),
    "arguments": Subject("arguments", suite=25),
    "command options": Subject("arguments", "play_option", share=0.1, suite=8),
}
