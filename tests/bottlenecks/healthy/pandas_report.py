"""Makes a monthly report from tables, with vectorised operations only.

Problem: none
Needs: pandas
"""

import os

import numpy as np
import pandas as pd

STEPS = int(os.environ.get("STEPS", "60"))
ROWS = 200_000


def month(number):
    rng = np.random.default_rng(number)
    return pd.DataFrame(
        {
            "shop": rng.integers(0, 300, ROWS),
            "product": rng.integers(0, 2000, ROWS),
            "amount": rng.poisson(3.0, ROWS),
            "price": rng.gamma(2.0, 10.0, ROWS),
        }
    )


shops = pd.DataFrame({"shop": range(300), "region": np.arange(300) % 12})
reports = []
for number in range(STEPS):
    sales = month(number)
    sales["total"] = sales["amount"] * sales["price"]
    sales = sales.merge(shops, on="shop")
    table = sales.groupby(["region", "shop"])["total"].agg(["sum", "mean", "count"])
    best = sales.groupby("product")["total"].sum().nlargest(10)
    reports.append((table["sum"].max(), best.index[0]))
print(f"{max(reports)[0]:.0f}")
