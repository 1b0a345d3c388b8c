"""Walks through a web of pages and visits none of them twice. No framework.

Problem: slowing-steps, python-work
Needs: nothing
"""

import hashlib
import os

STEPS = int(os.environ.get("STEPS", "150"))
FIXED = os.environ.get("FIXED") == "1"


def address(number):
    return f"https://example.org/{hashlib.md5(str(number).encode()).hexdigest()}"


def links_of(page, count=100):
    return [address((page * 7919 + i * 104729) % 400_000) for i in range(count)]


class Crawler:
    def __init__(self):
        self.visited = set() if FIXED else []

    def is_new(self, link):
        return link not in self.visited  # guilty

    def visit(self, page):
        new = [link for link in links_of(page) if self.is_new(link)]  # guilty
        if FIXED:
            self.visited.update(new)
        else:
            self.visited.extend(new)
        # The text of the pages, which is read for words.
        words = [word for link in new for word in (link * 20).split("/")]
        return len(set(words))


crawler = Crawler()
words = [crawler.visit(page) for page in range(STEPS)]
print(sum(words))
