"""Writes the tables of this folder. Needs pandas, pyarrow and openpyxl."""

import datetime
import pathlib

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq

here = pathlib.Path(__file__).parent
rows = 160
rng = np.random.default_rng(1)
table = pd.DataFrame(
    {
        "size": rng.normal(50, 9, rows).round(3),
        "count": rng.integers(0, 2000, rows),
        "weight": np.where(np.arange(rows) % 7 == 0, np.nan, rng.normal(0, 1, rows)),
        "colour": rng.choice(["rot", "grün", "blau"], rows),
        "sold": rng.choice([True, False], rows),
        "day": [datetime.date(2024, 1, 1) + datetime.timedelta(days=i % 5) for i in range(rows)],
        "kind": rng.choice(["a", "b"], rows),
    }
)
table.to_csv(here / "table.csv", index=False)
table.to_parquet(here / "table.parquet", index=False, row_group_size=60)
table.to_parquet(here / "zstd.parquet", index=False, compression="zstd")
nested = pa.table({"x": [1, 2], "tags": [["a"], ["b", "c"]]})
pq.write_table(nested, here / "nested.parquet")
with pd.ExcelWriter(here / "table.xlsx") as book:
    table.to_excel(book, index=False, sheet_name="Data")
    pd.DataFrame({"note": ["x"]}).to_excel(book, index=False, sheet_name="Notes")
