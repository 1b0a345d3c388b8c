"""Text into numbers."""

import re

_WORD = re.compile(r"[A-Za-z]+|[0-9]|[^\sA-Za-z0-9]")


class Tokenizer:
    """Splits words that it does not know into the longest pieces that it knows."""

    def __init__(self, pieces):
        self.ids = {piece: i for i, piece in enumerate(sorted(pieces))}

    def encode(self, text, length):
        found = []
        for word in _WORD.findall(text.lower()):
            while word:
                end = len(word)
                while end > 1 and word[:end] not in self.ids:  # guilty
                    end -= 1  # guilty
                found.append(self.ids.get(word[:end], 0))
                word = word[end:]
        return (found + [0] * length)[:length]

    def encode_batch(self, texts, length):
        return [self.encode(text, length) for text in texts]  # guilty
