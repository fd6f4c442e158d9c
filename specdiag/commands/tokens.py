"""--tokenizer: the text of token ids."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from specdiag.errors import SpecdiagError, reason


def read(path: Path | None) -> Callable[[int], str] | None:
    """Token ids to text by a `tokenizer.json`; ids that it does not know have no text.

    Raises SpecdiagError if it cannot be read, or the package for it is not installed.
    """
    if path is None:
        return None
    try:
        from tokenizers import Tokenizer
    except ImportError:
        raise SpecdiagError(
            "tokenizers is not installed", "--tokenizer",
            "pip install tokenizers, or draw the step without it",
        ) from None  # fmt: skip
    file = path / "tokenizer.json" if path.is_dir() else path
    if not file.is_file():
        raise SpecdiagError("no such tokenizer", str(file), "name a tokenizer.json, or its folder")
    try:
        backend = Tokenizer.from_file(str(file))
    except Exception as error:  # the library raises nothing narrower
        raise SpecdiagError(
            f"the tokenizer cannot be read: {reason(error)}", str(file), "copy the file again"
        ) from None

    def text(token: int) -> str:
        known = 0 <= token < 2**32 and backend.id_to_token(token) is not None
        return str(backend.decode([token], skip_special_tokens=False)) if known else ""

    return text
