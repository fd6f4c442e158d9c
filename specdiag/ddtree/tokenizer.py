"""The tokenizer of a model folder: byte-level pairs in the `tokenizer.json` of Hugging Face."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path

from tokenizers import Tokenizer as Backend
from tokenizers import decoders, models, pre_tokenizers, trainers

from specdiag.errors import SpecdiagError, reason

FILE, CONFIG = "tokenizer.json", "tokenizer_config.json"
END, MASK = "<|endoftext|>", "<|mask|>"


def _alphabet() -> dict[str, int]:
    """The byte behind each character that a byte-level vocabulary writes it as."""
    shown = [*range(33, 127), *range(161, 173), *range(174, 256)]
    others = [byte for byte in range(256) if byte not in shown]
    return {chr(byte): byte for byte in shown} | {
        chr(256 + at): byte for at, byte in enumerate(others)
    }


class Tokenizer:
    """Text to token ids and back."""

    def __init__(self, backend: Backend) -> None:
        self.backend = backend

    @classmethod
    def train(cls, texts: Iterable[str], vocab: int) -> Tokenizer:
        """A byte-level tokenizer; ids 0 and 1 are the end of a text and the drafter's mask."""
        backend = Backend(models.BPE())
        backend.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
        backend.decoder = decoders.ByteLevel()
        trainer = trainers.BpeTrainer(
            vocab_size=vocab, special_tokens=[END, MASK], show_progress=False,
            initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        )  # fmt: skip
        backend.train_from_iterator(texts, trainer)
        return cls(backend)

    @classmethod
    def load(cls, folder: Path) -> Tokenizer:
        """The tokenizer of a model folder."""
        path = folder / FILE
        if not path.is_file():
            raise SpecdiagError(
                f"no {FILE}", str(folder), "name a folder that holds a model with its tokenizer"
            )
        try:
            return cls(Backend.from_file(str(path)))
        except Exception as error:  # the library raises nothing narrower
            raise SpecdiagError(
                f"{FILE} cannot be read: {reason(error)}", str(path), "copy the file again"
            ) from None

    def save(self, folder: Path) -> None:
        """Write `tokenizer.json`, and beside it what other libraries want to know of it."""
        self.backend.save(str(folder / FILE))
        config = {"tokenizer_class": "PreTrainedTokenizerFast", "eos_token": END}
        (folder / CONFIG).write_text(json.dumps(config) + "\n", encoding="utf-8")

    @property
    def size(self) -> int:
        """How many ids there are."""
        return int(self.backend.get_vocab_size())

    def id(self, token: str) -> int | None:
        """The id of a token, such as END or MASK."""
        found = self.backend.token_to_id(token)
        return None if found is None else int(found)

    def texts(self) -> list[bytes | None]:
        """The bytes of each id; None of a special one, and of one that is not byte-level."""
        alphabet = _alphabet()
        special = {*self.backend.get_added_tokens_decoder()}
        found: list[bytes | None] = []
        for id in range(self.size):
            token = None if id in special else self.backend.id_to_token(id)
            known = [alphabet.get(character, -1) for character in token or ""]
            found.append(bytes(known) if known and min(known) >= 0 else None)
        return found

    def encode(self, text: str) -> list[int]:
        """The ids of a text, without marks of begin and end."""
        return list(self.backend.encode(text, add_special_tokens=False).ids)

    def decode(self, ids: Iterable[int]) -> str:
        """The text of ids; bytes that are no text yet show as replacement characters."""
        return str(self.backend.decode(list(ids), skip_special_tokens=False))
