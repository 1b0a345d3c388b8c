"""The bridge: C++ that torch calls at every operator, and how it is built and chosen."""
