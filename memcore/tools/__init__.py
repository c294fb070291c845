"""What other tools call things: their files and command lines read, and a config written as theirs."""

from memcore.tools.convert import Imported, flag, imported
from memcore.tools.exporting import Exported, exported
from memcore.tools.names import shown_names
from memcore.tools.table import TOOLS, loops_of, needed_by, runs, tool_of, tools_of

__all__ = [
    "TOOLS",
    "Exported",
    "Imported",
    "exported",
    "flag",
    "imported",
    "loops_of",
    "needed_by",
    "runs",
    "shown_names",
    "tool_of",
    "tools_of",
]
