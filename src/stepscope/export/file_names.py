"""Names of files that are made from names that somebody else gave."""

from __future__ import annotations

import hashlib
import re

_LONGEST_WORKER = 150  # bytes; a file name may have 255, and the rest of ours takes some 60
_NOT_IN_A_FILE_NAME = re.compile(r"[\x00-\x1f\x7f/\\:*?\"<>|\ud800-\udfff]|^\.+|^\s+|\s+$")


def file_word(name: str) -> str:
    """Return a name as it may stand in a file name; two names never give the same word."""
    word = _NOT_IN_A_FILE_NAME.sub("_", name)
    word = word.encode()[:_LONGEST_WORKER].decode("utf-8", "ignore")
    if word == name:
        return word
    mark = hashlib.blake2b(name.encode("utf-8", "surrogatepass"), digest_size=4).hexdigest()
    return f"{word}-{mark}"
