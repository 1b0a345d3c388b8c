"""The Python program itself: calls, samples, collections, annotations, requests, children."""
