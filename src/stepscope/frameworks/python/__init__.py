"""Any Python program: calls, samples, collections, annotations, requests, children."""
