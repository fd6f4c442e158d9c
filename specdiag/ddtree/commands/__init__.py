"""`specdiag ddtree`: the bundled runtime as commands.

Nothing but typer and the standard library is imported at module level: torch takes seconds to
load, and may not be installed.
"""

from specdiag.ddtree.commands import bench, detect, faults, generate, probe, train
from specdiag.ddtree.commands.options import app

__all__ = ["app", "bench", "detect", "faults", "generate", "probe", "train"]
