"""A table as a dictionary, random programs for both, and the shortest program that tells them apart.

A row is its values with the versions that made and last changed it, by row id. Programs are plain data: each step
is a name and two numbers, from which the step takes what it needs, so any part of a program is a program.
"""

from __future__ import annotations

import inspect
import random
import traceback
from collections.abc import Callable
from copy import deepcopy
from dataclasses import dataclass, field
from datetime import timedelta
from itertools import product
from typing import Any

import pennon
import pyarrow as pa

Step = tuple[str, int, int]
Program = list[Step]

LINEAGE = ["_rowid", "_row_created_at_version", "_row_last_updated_at_version"]
BASE = {"id": pa.int64(), "n": pa.int64(), "text": pa.utf8(), "f": pa.float64()}


@dataclass
class Row:
    values: dict[str, Any]
    created: int
    updated: int


@dataclass
class State:
    """One version: rows by id, names of the columns by field id, and the names of added columns in order.

    `origins` has the name that each added column was made with.
    """

    rows: dict[int, Row] = field(default_factory=dict)
    fields: dict[int, str] = field(default_factory=dict)
    added: list[str] = field(default_factory=list)
    origins: dict[str, str] = field(default_factory=dict)


class Machine:
    """A table and its model.

    Parameters
    ----------
    create
        Makes the table of some rows.
    open
        The newest version, by whoever has the turn; the argument is a random number.
    reader
        The newest version, by Pennon: its answers are checked.
    """

    def __init__(
        self,
        create: Callable[[pa.Table], Any],
        open: Callable[[int], Any],
        reader: Callable[[], Any],
    ) -> None:
        self.open, self.reader = open, reader
        self.next_row, self.next_key, self.next_column = 0, 0, 0
        self.versions: dict[int, State] = {}
        self.state, self.version = State(fields=dict(enumerate(BASE))), 0
        self.tags: set[int] = set()
        create(self.fresh(12))
        # One version, and one in which the table was configured.
        assert self.reader().version in (1, 2)
        self.made(self.reader().version)

    # Bookkeeping.

    def fresh(self, count: int, start: int | None = None) -> pa.Table:
        """New rows for the table and the model, or only for the table with keys from `start` on."""
        first = self.next_key if start is None else start
        columns = {"id": list(range(first, first + count)), "n": [i % 5 if i % 4 else None for i in range(count)]}
        columns["text"] = [f"row {i}" if i % 7 else None for i in range(first, first + count)]
        columns["f"] = [(i * 7 % 11 - 5) / 2 if i % 3 else None for i in range(first, first + count)]
        for name in self.state.added:
            columns[name] = [None] * count
        if start is None:
            for at in range(count):
                values = {name: column[at] for name, column in columns.items()}
                self.state.rows[self.next_row] = Row(values, self.version + 1, self.version + 1)
                self.next_row += 1
            self.next_key += count
        types = BASE | dict.fromkeys(self.state.added, pa.int64())
        return pa.table({name: pa.array(column, types[name]) for name, column in columns.items()})

    def made(self, versions: int = 1) -> None:
        """As many versions were made of what the model is now."""
        table = self.reader()
        assert table.version == self.version + versions
        assert {field.id: field.name for field in table.lance_schema.fields()} == self.state.fields
        self.versions |= {version: deepcopy(self.state) for version in range(self.version + 1, table.version + 1)}
        self.version = table.version

    def touch(self, rows: list[int], change: Callable[[dict[str, Any]], None], version: int) -> None:
        for row in rows:
            change(self.state.rows[row].values)
            self.state.rows[row].updated = version

    def matching(self, number: int) -> tuple[str, list[int]]:
        """A predicate and the rows for which it is true: neither false nor null."""
        every, rest, above = 2 + number % 5, number // 5 % 7, number // 35 % max(1, self.next_key)

        def of_id(row: dict[str, Any]) -> bool:
            return row["id"] % every == rest % every and row["id"] >= above // 2

        def of_text(row: dict[str, Any]) -> bool:
            return row["n"] is None or (row["text"] is not None and row["text"].endswith(str(rest)))

        def of_float(row: dict[str, Any]) -> bool:
            return None not in (row["f"], row["text"]) and row["f"] > rest / 2 - 1 and row["text"] != f"row {above}"

        where, test = [
            (f"id % {every} = {rest % every} AND id >= {above // 2}", of_id),
            (f"text LIKE '%{rest}' OR n IS NULL", of_text),
            (f"f > {rest / 2 - 1} AND NOT text = 'row {above}'", of_float),
        ][number // 7 % 3]
        return where, [row for row, found in self.state.rows.items() if test(found.values)]

    def next_field(self) -> int:
        """The field id of a column that is added now: above all of the schema and of the data files."""
        files = (file for fragment in self.reader().get_fragments() for file in fragment.data_files())
        return 1 + max([*self.state.fields, *(field for file in files for field in file.fields)])

    # Steps.

    def run(self, step: Step) -> None:
        name, one, two = step
        table = self.open(two)
        versions = getattr(self, f"do_{name}")(table, one, two)
        if versions is not False:
            self.made(versions or 1)

    def do_append(self, table: Any, one: int, two: int) -> None:
        table.insert(self.fresh(1 + one % 6))

    def do_overwrite(self, table: Any, one: int, two: int) -> None:
        self.state = State(fields=dict(enumerate(BASE)))
        table.insert(self.fresh(1 + one % 9), mode="overwrite")

    def do_delete(self, table: Any, one: int, two: int) -> None:
        where, rows = self.matching(one)
        assert table.delete(where)["num_deleted_rows"] == len(rows)
        for row in rows:
            del self.state.rows[row]

    def do_update(self, table: Any, one: int, two: int) -> None:
        where, rows = self.matching(one)
        if two % 2:
            assert table.update({"n": "coalesce(n, 0) + 1"}, where)["num_rows_updated"] == len(rows)
            self.touch(rows, lambda row: row.update(n=(row["n"] or 0) + 1), self.version + 1)
        elif two % 4:
            table.update({"text": "NULL", "n": "id"}, where)
            self.touch(rows, lambda row: row.update(text=None, n=row["id"]), self.version + 1)
        else:
            table.update({"text": "text || '+'", "f": "f / 2"}, where)
            for row in rows:
                self.state.rows[row].values |= {
                    name: None if value is None else change(value)
                    for name, change in {"text": lambda text: text + "+", "f": lambda f: f / 2}.items()
                    for value in [self.state.rows[row].values[name]]
                }
            self.touch(rows, lambda row: None, self.version + 1)

    def do_update_columns(self, table: Any, one: int, two: int) -> bool | None:
        """An update that changes columns in place, where that can be asked for."""
        if "mode" not in inspect.signature(table.update).parameters:
            return False
        where, rows = self.matching(one)
        if two % 3 == 0:
            # Who updates has read the version before.
            self.reader().update_config({"raced": str(one)})
            self.made()
        table.update({"n": "id * 3"}, where, mode="rewrite_columns")
        self.touch(rows, lambda row: row.update(n=row["id"] * 3), self.version + 1)
        return None

    def do_update_rows(self, table: Any, one: int, two: int) -> bool | None:
        """By id; in new fragments or in place."""
        if not hasattr(table, "update_rows") or not self.state.rows:
            return False
        rows = sorted(self.state.rows, key=lambda row: row * (one | 1) % 101)[: 1 + two % 5]
        mode = ["auto", "rewrite_rows", "rewrite_columns"][two // 5 % 3]
        table.update_rows(rows, {"n": [one] * len(rows)}, mode=mode)
        self.touch(rows, lambda row: row.update(n=one), self.version + 1)
        return None

    def do_merge_columns(self, table: Any, one: int, two: int) -> bool | None:
        """A source with some of the columns, for rows that are there."""
        if not hasattr(table, "merge_insert"):
            return False
        keys = range(one % max(1, self.next_key), min(self.next_key, one % max(1, self.next_key) + 1 + two % 9))
        merge = table.merge_insert("id").when_matched_update_all()
        if hasattr(merge, "write_mode"):
            merge.write_mode(["auto", "rewrite_rows", "rewrite_columns"][two // 9 % 3])
        merge.execute(pa.table({"id": pa.array(keys, pa.int64()), "n": pa.array([two] * len(keys), pa.int64())}))
        rows = [at for at, row in self.state.rows.items() if row.values["id"] in keys]
        self.touch(rows, lambda row: row.update(n=two), self.version + 1)
        return None

    def do_merge(self, table: Any, one: int, two: int) -> bool | None:
        if not hasattr(table, "merge_insert"):
            return False
        count, start = 1 + one % 8, one // 8 % max(1, self.next_key)
        source = self.fresh(count, start)
        new = {row["id"]: row for row in source.to_pylist()}
        # A row that came back may have the key of one that took its place.
        old: dict[int, list[int]] = {}
        for at, row in self.state.rows.items():
            old.setdefault(row.values["id"], []).append(at)
        merge = table.merge_insert("id")
        matched = ["update", "nothing", "some", "delete"][two % 4]
        insert, source_delete = two // 4 % 3 != 0, two // 12 % 4 == 0
        # The reference cannot do both.
        source_delete = source_delete and matched != "delete"
        if matched == "nothing" and not insert and not source_delete:
            insert = True
        version = self.version + 1
        both = [(key, at) for key in new for at in old.get(key, [])]
        if matched == "update":
            merge.when_matched_update_all()
        elif matched == "some":
            merge.when_matched_update_all("target.n > 2")
            both = [(key, at) for key, at in both if (self.state.rows[at].values["n"] or 0) > 2]
        elif matched == "delete":
            if not hasattr(merge, "when_matched_delete"):
                return False
            merge.when_matched_delete()
        if insert:
            merge.when_not_matched_insert_all()
        if source_delete:
            merge.when_not_matched_by_source_delete("id % 3 = 0")
        merge.execute(source)
        for key, at in both:
            if matched == "delete":
                del self.state.rows[at]
            elif matched != "nothing":
                self.state.rows[at] = Row(dict(new[key]), self.state.rows[at].created, version)
        if source_delete:
            for key, rows in old.items():
                if key not in new and key % 3 == 0:
                    for at in rows:
                        del self.state.rows[at]
        if insert:
            # Which of the new rows gets which id is the table's business.
            found = self.reader().to_table(columns=["id", "_rowid"]).to_pylist()
            inserted = {row["id"]: row["_rowid"] for row in found if row["_rowid"] >= self.next_row}
            assert sorted(inserted) == sorted(key for key in new if key not in old)
            ids = range(self.next_row, self.next_row + len(inserted))
            assert sorted(inserted.values()) == list(ids)
            self.next_row += len(inserted)
            for key, row in inserted.items():
                self.state.rows[row] = Row(dict(new[key]), version, version)
            self.next_key = max([self.next_key, *(key + 1 for key in new)])
        return None

    def do_add_column(self, table: Any, one: int, two: int) -> bool | None:
        if not hasattr(table, "add_columns") or len(self.state.added) > 3:
            return False
        name = f"c{self.next_column}"
        self.next_column += 1
        self.state.fields[self.next_field()] = name
        if one % 3:
            table.add_columns({name: "id + 1"})
            self.touch(list(self.state.rows), lambda row: row.update({name: row["id"] + 1}), self.version + 1)
        else:
            table.add_columns([pa.field(name, pa.int64())])
            for row in self.state.rows.values():
                row.values[name] = None
        self.state.added.append(name)
        self.state.origins[name] = name
        return None

    def do_drop_column(self, table: Any, one: int, two: int) -> bool | None:
        if not hasattr(table, "drop_columns") or not self.state.added:
            return False
        name = self.state.added.pop(one % len(self.state.added))
        table.drop_columns([name])
        self.state.fields = {field: other for field, other in self.state.fields.items() if other != name}
        for row in self.state.rows.values():
            del row.values[name]
        return None

    def do_rename_column(self, table: Any, one: int, two: int) -> bool | None:
        if not hasattr(table, "alter_columns") or not self.state.added:
            return False
        at = one % len(self.state.added)
        old, new = self.state.added[at], f"c{self.next_column}"
        self.next_column += 1
        table.alter_columns({"path": old, "name": new})
        self.state.added[at] = new
        self.state.origins[new] = self.state.origins[old]
        self.state.fields = {field: new if name == old else name for field, name in self.state.fields.items()}
        for row in self.state.rows.values():
            row.values = {new if name == old else name: value for name, value in row.values.items()}
        return None

    def do_compact(self, table: Any, one: int, two: int) -> int | bool:
        if not hasattr(table, "optimize"):
            return False
        table.optimize.compact_files(target_rows_per_fragment=[5, 20, 1000][one % 3])
        versions = self.reader().version - self.version
        # Ids of fragments are reserved by a version of its own.
        assert versions in (0, 1, 2)
        return versions or False

    def do_restore(self, table: Any, one: int, two: int) -> None:
        version = self.some_version(one)
        table.checkout_version(version).restore()
        self.state = deepcopy(self.versions[version])

    def do_restore_rows(self, table: Any, one: int, two: int) -> bool | None:
        if not hasattr(table, "restore_rows"):
            return False
        version = self.some_version(one)
        older = self.versions[version]
        rows = [row for row in sorted(older.rows) if row * 7 % (2 + two % 3) == 0]
        names = {name: older.fields.get(field) for field, name in self.state.fields.items()}
        renamed = {new: old for new, old in names.items() if old not in (None, new)}
        try:
            assert table.restore_rows(rows, version) == {"num_restored_rows": len(rows)}
        except pennon.UnsupportedError:
            # Nobody can always tell a column of another name from another column with its field id.
            assert renamed
            return False
        others = [old for new, old in renamed.items() if older.origins[old] != self.state.origins[new]]
        # Another column without any value is as good.
        assert all(row.values[old] is None for old in others for row in older.rows.values())
        for row in rows:
            values = {new: older.rows[row].values.get(old) for new, old in names.items()}
            self.state.rows[row] = Row(values, older.rows[row].created, self.version + 1)
        return None

    def do_tag(self, table: Any, one: int, two: int) -> bool:
        version = self.some_version(one)
        if version not in self.tags:
            self.tags.add(version)
            table.tags.create(f"v{version}", version)
        return False

    def do_cleanup(self, table: Any, one: int, two: int) -> bool:
        table.cleanup_old_versions(timedelta(0), error_if_tagged_old_versions=False)
        kept = {entry["version"] for entry in self.reader().versions()}
        assert kept == self.tags | {self.version}
        self.versions = {version: self.versions[version] for version in kept}
        return False

    def some_version(self, number: int) -> int:
        return sorted(self.versions)[number % len(self.versions)]

    # Checks.

    def check(self, dice: random.Random, readers: list[Any]) -> None:
        """The newest version, an older one, and the changes between versions."""
        for table in readers:
            assert table.version == self.version
            self.check_rows(table, self.state)
        table = readers[0]
        older = dice.choice(sorted(self.versions))
        self.check_rows(table.checkout_version(older), self.versions[older])
        wanted = [dice.randrange(self.next_row + 2) for _ in range(5)]
        expected = [self.state.rows[row].values["id"] for row in wanted if row in self.state.rows]
        assert table._take_rows(wanted, columns=["id"])["id"].to_pylist() == expected
        if self.state.rows:
            ids = table.to_table(columns=["id"])["id"].to_pylist()
            positions = [dice.randrange(len(ids)) for _ in range(3)]
            assert table.take(positions, columns=["id"])["id"].to_pylist() == [ids[at] for at in positions]
        points = sorted(dice.choice([0, *self.versions]) for _ in range(3))
        for a, b in [points[:2], points[1:], points[::2]]:
            if b:
                self.check_changes(table, a, b)
        if self.next_row and dice.random() < 0.3:
            self.check_history(table, dice.randrange(self.next_row))

    def check_rows(self, table: Any, state: State) -> None:
        names = list(state.fields.values())
        found = table.to_table(columns=[*names, *LINEAGE, "_rowaddr"]).to_pylist()
        addresses = [row["_rowaddr"] for row in found]
        assert addresses == sorted(set(addresses)), "rows are in the order of fragments and of their rows"
        rows = {row["_rowid"]: Row({n: row[n] for n in names}, row[LINEAGE[1]], row[LINEAGE[2]]) for row in found}
        assert len(rows) == len(found) == table.count_rows()
        assert rows == state.rows, f"version {table.version}"

    def check_changes(self, table: Any, begin: int, end: int) -> None:
        """state(begin) + changes = state(end), and the changes are those that the lineage tells."""
        new = self.versions[end]
        old = self.versions[begin] if begin else State()
        after = {row: found.values for row, found in new.rows.items()}
        images = changes(table, begin, end, images="both")
        for names in self.older_names(old, new):
            before = {
                row: {name: found.values.get(names[name]) for name in names} for row, found in old.rows.items()
            }
            expected: dict[int, list[tuple[str, Any]]] = {}
            for row in before.keys() | after.keys():
                if row not in before:
                    expected[row] = [("insert", after[row])]
                elif row not in after:
                    expected[row] = [("delete", before[row])]
                elif old.rows[row].updated != new.rows[row].updated or before[row] != after[row]:
                    # The same version and other values: a restore has brought a column back.
                    expected[row] = [("update_preimage", before[row]), ("update_postimage", after[row])]
            if images == expected:
                break
        assert images == expected, (begin, end)
        post = {
            row: [(kind, None if kind == "delete" else values)] for row, [*_, (kind, values)] in expected.items()
        }
        found = changes(table, begin, end)
        for steps in found.values():
            steps[:] = [(kind, None if kind == "delete" else values) for kind, values in steps]
        assert found == post, (begin, end)
        dropped = {row: steps for row, steps in expected.items() if len(steps) == 1 or steps[0][1] != steps[1][1]}
        assert changes(table, begin, end, images="both", drop_unchanged=True) == dropped, (begin, end)
        steps = [self.versions.get(version) for version in range(max(begin, 1), end + 1)]
        if all(state is not None and len(self.older_names(state, new)) == 1 for state in steps):
            rows = dict(before)
            for kind, row, values in walk(table, begin, end):
                if kind == "insert":
                    assert row not in rows
                    rows[row] = values
                elif kind == "delete":
                    assert rows.pop(row) == values
                elif kind == "update_preimage":
                    assert rows[row] == values
                else:
                    rows[row] = values
            assert rows == after, (begin, end)

    def older_names(self, old: State, new: State) -> list[dict[str, str | None]]:
        """The names in an older version of the columns of a newer one, in all ways that a feed may have them."""
        columns = {origin: name for name, origin in old.origins.items()}
        found: dict[str, list[str | None]] = {}
        for name in new.fields.values():
            older = name if name in BASE else columns.get(new.origins[name])
            found[name] = [older]
            if older not in (None, name) and set(self.versions) != set(range(1, self.version + 1)):
                # Where versions are missing a renamed column may be another one.
                found[name].append(None)
        return [dict(zip(found, names, strict=True)) for names in product(*found.values())]

    def check_history(self, table: Any, row: int) -> None:
        """Where every version is there."""
        if set(range(1, self.version + 1)) != set(self.versions):
            return
        expected, before = [], None
        for version in range(1, self.version + 1):
            now = self.versions[version].rows.get(row)
            if now is None and before is not None:
                expected.append(("delete", version))
            elif now is not None and (before is None or before.updated != now.updated):
                expected.append(("insert" if before is None else "update", version))
            before = now
        found = table.history(row)
        kinds, versions = found["_change_type"].to_pylist(), found["_commit_version"].to_pylist()
        assert list(zip(kinds, versions, strict=True)) == expected, row


def walk(table: Any, begin: int, end: int) -> list[tuple[str, int, dict[str, Any]]]:
    found = table.changes(begin, end, images="both", mode="each").read_all().to_pylist()
    return [(change["_change_type"], change["_rowid"], without_about(change)) for change in found]


def changes(table: Any, begin: int, end: int, **options: Any) -> dict[int, list[tuple[str, Any]]]:
    found: dict[int, list[tuple[str, Any]]] = {}
    for change in table.changes(begin, end, **options).read_all().to_pylist():
        found.setdefault(change["_rowid"], []).append((change["_change_type"], without_about(change)))
    return found


def without_about(change: dict[str, Any]) -> dict[str, Any]:
    about = {"_change_type", "_rowid", "_commit_version", "_commit_timestamp"}
    return {name: value for name, value in change.items() if name not in about}


KINDS = (
    ["append", "delete", "update", "update", "merge", "merge", "compact"] * 2
    + ["add_column", "drop_column", "rename_column", "update_columns", "update_rows", "merge_columns"]
    + ["restore", "restore_rows", "overwrite", "tag", "cleanup"]
)


def program(seed: int, steps: int) -> Program:
    dice = random.Random(seed)
    return [(dice.choice(KINDS), dice.randrange(1 << 16), dice.randrange(1 << 16)) for _ in range(steps)]


def failure(run: Callable[[], None]) -> Exception | None:
    """What a program fails with."""
    try:
        run()
    except Exception as error:
        return error
    return None


def kind_of(error: Exception | None) -> tuple[type, int]:
    """Failures are the same if they are of one class and from one line here, where what failed was asked for."""
    frames = traceback.extract_tb(error.__traceback__) if error is not None else []
    lines = [frame.lineno or 0 for frame in frames if frame.filename == __file__]
    return type(error), lines[-1] if lines else 0


def report(error: Exception, seed: int, steps: Program, run: Callable[[Program], None]) -> str:
    """The error of the shortest program that fails like this one, and that program."""
    short = shortest(steps, lambda part: kind_of(failure(lambda: run(part))) == kind_of(error))
    lines = "\n".join(f"    {step}," for step in short)
    return f"seed {seed}: {failure(lambda: run(short)) or error!r}\nshortest program:\n{lines}"


def shortest(steps: Program, fails: Callable[[Program], bool]) -> Program:
    """A part of a failing program that fails, without steps that can be left out."""
    size = len(steps) // 2
    while size:
        at = 0
        while at < len(steps):
            rest = steps[:at] + steps[at + size :]
            if fails(rest):
                steps = rest
            else:
                at += size
        size //= 2
    return steps
