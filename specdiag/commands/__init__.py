"""Commands about traced steps, one file each; `cli.py` has the others and registers these.

Nothing but typer and the standard library is imported at module level.
"""
