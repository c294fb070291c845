"""What other tools call things: their files and command lines read, and a config written as theirs."""

from memcore.formats.convert import Exported, Imported, exported, flag, imported
from memcore.formats.names import shown_names
from memcore.formats.tools import TOOLS, runs, tool_of

__all__ = ["TOOLS", "Exported", "Imported", "exported", "flag", "imported", "runs", "shown_names", "tool_of"]
