"""Numbers in a text next to decimals: compared and stored with all digits, by a scan and by an index."""

from __future__ import annotations

import operator
import random
from decimal import Decimal
from pathlib import Path
from typing import Any

import pennon
import pyarrow as pa
import pytest

OPERATORS = {
    "=": operator.eq,
    "<>": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}


def priced(*prices: str | None, precision: int = 10, scale: int = 2, **more: Any) -> pa.Table:
    values = [None if price is None else Decimal(price) for price in prices]
    column = pa.array(values, pa.decimal128(precision, scale))
    return pa.table({"id": range(len(values)), "price": column, **more})


def ids(table: pennon.LanceDataset, condition: str) -> list[int]:
    return table.to_table(columns=["id"], filter=condition)["id"].to_pylist()


@pytest.mark.parametrize("kind", [None, "BTREE", "BITMAP", "ZONEMAP"])
@pytest.mark.parametrize(("precision", "scale"), [(10, 2), (18, 2), (38, 0), (38, 4), (38, 38)])
def test_comparisons_are_exact(tmp_path: Path, kind: str | None, precision: int, scale: int) -> None:
    draw = random.Random(precision + scale)
    most = 10 ** min(precision, draw.choice([6, precision]))
    prices = [Decimal(draw.randrange(-most + 1, most)).scaleb(-scale).normalize() for _ in range(60)]
    texts = [f"{price:f}" for price in prices]
    table = pennon.write_dataset(priced(*texts, None, precision=precision, scale=scale), str(tmp_path / "t"))
    if kind is not None:
        table.create_scalar_index("price", kind)
        table = pennon.dataset(table.uri)
    between = [text + ("01" if "." in text else ".01") for text in texts[:4]]
    asked = [*texts[:8], *between, "0.5", "-1e3", "1e25", "7"]
    for text in asked:
        number = Decimal(text)
        for sign, compare in OPERATORS.items():
            expected = [i for i, price in enumerate(prices) if compare(price, number)]
            assert ids(table, f"price {sign} {text}") == expected, (sign, text)
            assert table.count_rows(f"price {sign} {text}") == len(expected), (sign, text)
    among = [i for i, price in enumerate(prices) if price in {Decimal(text) for text in asked}]
    assert ids(table, f"price in ({', '.join(asked)})") == among
    assert ids(table, f"price not in ({', '.join(asked)})") == sorted(set(range(60)) - set(among))


def test_deletes_updates_and_merges() -> None:
    table = pennon.write_dataset(priced("69.15", "71.74", "5.00"), "memory://decimals", mode="overwrite")
    assert table.delete("price < 69.15") == {"num_deleted_rows": 1}
    assert ids(table, "true") == [0, 1]
    assert table.update({"price": "12345678.91"}, where="price = 69.15") == {"num_rows_updated": 1}
    assert ids(table, "price = 12345678.91") == [0]
    merge = table.merge_insert("id").when_matched_update_all("target.price = 71.74 AND source.price > 0.99")
    merge.execute(priced("1.00", "1.00"))
    assert table.to_table()["price"].to_pylist() == [Decimal("12345678.91"), Decimal("1.00")]


def test_values_have_all_their_digits() -> None:
    table = pennon.write_dataset(
        priced("1.5", "2.5", precision=20, scale=10), "memory://decimal-digits", mode="overwrite"
    )
    table.update({"price": "1234567890.1234567891"}, where="id = 0")
    table.update({"price": "CASE WHEN price > 2.4999999999 THEN -0.0000000001 END"}, where="id = 1")
    assert table.to_table()["price"].to_pylist() == [Decimal("1234567890.1234567891"), Decimal("-0.0000000001")]


def test_columns_of_floats() -> None:
    """As in Spark, decimals are compared with them as floats."""
    data = priced("69.15", "5.00", "10.00", None, f=[69.15, 1e20, float("nan"), 1.0])
    table = pennon.write_dataset(data, "memory://decimal-floats", mode="overwrite")
    assert ids(table, "price = f") == [0]
    assert ids(table, "price < f") == [1, 2]
    assert ids(table, "f in (price, 1.0)") == [0, 3]
    assert ids(table, "nullif(price, 69.15) is null") == [0, 3]
