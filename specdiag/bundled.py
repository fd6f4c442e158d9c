"""Where the parser and rule definitions are, in a checkout and in an installed wheel."""

from __future__ import annotations

import itertools
import re
import tomllib
from pathlib import Path
from typing import Any

PACKAGE = Path(__file__).parent
# A wheel carries both folders inside the package; in a checkout they stand beside it.
_HOME = next(folder for folder in (PACKAGE, PACKAGE.parent) if (folder / "rules").is_dir())

PARSERS = _HOME / "parsers"
INCLUDED = PARSERS / "shared"  # events of several parsers
RULES = _HOME / "rules"
SCHEMA = PACKAGE / "schema.sql"
DERIVE = PACKAGE / "derive"
SAVED = PACKAGE / "saved.sql"
PUBLISHED = PACKAGE / "published.csv"
WORDS = PACKAGE / "words.sql"
REPLAY = PACKAGE / "replay.sql"
IDENTITIES = PACKAGE / "identities"
FACTS = PACKAGE / "facts"
SMOKE = PACKAGE / "smoke.sql"
FIGURES = PACKAGE / "figures"


def header(sql: str) -> dict[str, Any]:
    """The TOML in the leading comment of a SQL file.

    Raises ValueError when it is none.
    """
    lines = itertools.takewhile(lambda line: line.startswith("--"), sql.splitlines())
    return tomllib.loads("\n".join(re.sub(r"^-- ?", "", line) for line in lines))


def definitions(bundled: Path, extra: list[Path], suffix: str) -> list[Path]:
    """Definition files by name; a file of a later folder replaces one of the same name."""
    found: dict[str, Path] = {}
    for folder in (bundled, *extra):
        for path in sorted(folder.glob(f"*{suffix}")) if folder.is_dir() else [folder]:
            found[path.stem] = path
    return [found[name] for name in sorted(found)]
