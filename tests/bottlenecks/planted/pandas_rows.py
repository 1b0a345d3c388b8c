"""Prices orders in a pandas table, row by row.

Problem: library-call, python-work
Needs: pandas
"""

import os

import numpy as np
import pandas as pd

STEPS = int(os.environ.get("STEPS", "80"))
FIXED = os.environ.get("FIXED") == "1"


def month_of_orders(month):
    rng = np.random.default_rng(month)
    return pd.DataFrame(
        {
            "customer": rng.integers(0, 400, 3000),
            "amount": rng.integers(1, 20, 3000),
            "price": rng.gamma(2.0, 10.0, 3000),
            "loyal": rng.random(3000) < 0.3,
        }
    )


def total(order):
    price = order["amount"] * order["price"]
    return price * 0.9 if order["loyal"] and order["amount"] > 5 else price


def priced(orders):
    if FIXED:
        price = orders["amount"] * orders["price"]
        cheaper = orders["loyal"] & (orders["amount"] > 5)
        return price.where(~cheaper, price * 0.9)
    return orders.apply(total, axis=1)  # guilty


turnover = []
for month in range(STEPS):
    orders = month_of_orders(month)
    orders["total"] = priced(orders)  # guilty
    by_customer = orders.groupby("customer")["total"].agg(["sum", "mean", "max"])
    turnover.append(by_customer["sum"].sort_values().tail(20).sum())
print(f"{sum(turnover):.0f}")
