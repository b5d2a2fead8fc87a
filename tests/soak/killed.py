"""Writers that are killed after a moment: they change a table by all verbs and log each change and its end.

Those verbs of `soak.table_writers` that change no row are intents here too, and so are those of tags, which are in
a journal of their own since they make no version.
"""

from __future__ import annotations

from contextlib import suppress
from datetime import timedelta
from typing import Any

import pennon
from soak.effects import Intent
from soak.journal import Journal
from soak.steps import carry_out
from soak.table_writers import VERBS, LanceWriter, PennonWriter, Writer

# How often each verb is chosen: those with several steps more often than in a long soak.
OFTEN = {
    "overwrite": 0.4,
    "restore": 2,
    "add_column": 2,
    "drop_column": 1.5,
    "rename_column": 1.5,
    "compact": 6,
    "index": 3,
    "optimize": 3,
    "config": 2,
    "tag": 4,
    "branch": 1,
    "cleanup": 2,
    # One that is read later needs a writer that lives.
    "clone": 0,
}
FEWEST, MOST = 150, 500
# Versions are left that are younger than the newest one that was compared, or older by less than so many seconds.
IN_USE = 4
INDICES = [("id", "BTREE"), ("n", "BTREE"), ("n", "ZONEMAP"), ("text", "BITMAP"), ("f", "BLOOMFILTER")]


class KilledWriter(Writer):
    """Changes a table until it is killed."""

    verbs = {**VERBS, **OFTEN}
    fewest, most, unlogged = FEWEST, MOST, ()

    def __init__(self, given: dict[str, Any]) -> None:
        super().__init__(given)
        self.tags = Journal(self.home / f"writer-{self.number}.tags", sync=False)
        self.durability = self.dice.choice([{}, {"durability": "os"}])

    def opened_journal(self) -> Journal:
        return Journal(self.home / f"writer-{self.number}.journal", sync=False)

    def opening(self) -> dict[str, Any]:
        return self.durability if self.library is pennon else {}

    def wait(self) -> int:
        """The checker compares when all writers are dead."""
        return self.checked()[0]

    def intent(self, verb: str, table: Any, checked: int) -> Intent | None:
        if verb == "compact":
            return {"kind": verb, "target": self.dice.choice([50, 200, 5_000])}
        if verb == "index":
            column, type = self.dice.choice(INDICES)
            return {"kind": verb, "column": column, "type": type, "name": f"{column}_{type.lower()}_{self.number}"}
        if verb == "optimize":
            return {"kind": verb}
        if verb == "config":
            value = str(self.dice.randrange(10**9))
            return {"kind": verb, "key": f"soak.{self.number}.{self.dice.randrange(3)}", "value": value}
        return super().intent(verb, table, checked)

    def commit(self, table: Any, intent: Intent, seq: int) -> None:
        before = table.version
        committed = carry_out(self.library, table, intent, self.opening())
        if committed is not None and intent["kind"] == "compact":
            # A compaction that lost a fragment to another writer makes several versions, and the last may be of one
            # that lost again.
            self.journal.ended(seq, None, between=[before, committed.version])
            return
        self.journal.ended(seq, None if committed is None else committed.version)

    def side_tag(self, table: Any) -> None:
        """A tag of this writer is made, moved or removed."""
        name = f"w{self.number}-{self.dice.randrange(3)}"
        old = self.listed_tags(table)
        version = None if name in old and self.dice.random() < 0.5 else table.version
        seq = self.tags.propose({"kind": "tag", "name": name, "version": version})
        if version is None:
            table.tags.delete(name)
        elif name in old:
            table.tags.update(name, version)
        else:
            table.tags.create(name, version)
        self.tags.ended(seq, version or 0)

    def listed_tags(self, table: Any) -> Any:
        return table.tags.list()

    def side_cleanup(self, table: Any) -> None:
        """Of versions that were compared and that neither a writer nor the checker still reads."""
        _, age = self.checked()
        table.cleanup_old_versions(timedelta(seconds=age + IN_USE), error_if_tagged_old_versions=False)


class KilledPennon(KilledWriter, PennonWriter):
    pass


class KilledLance(KilledWriter, LanceWriter):
    def listed_tags(self, table: Any) -> Any:
        """The reference reads one tag after the other: one that was removed since they were listed is an error."""
        while True:
            try:
                return super().listed_tags(table)
            except ValueError as error:  # noqa: PERF203 - a retry loop
                if "Not found" not in str(error) or "/_refs/tags/" not in str(error):
                    raise


class Hasty(KilledPennon):
    """Acknowledges before it commits, which the checker must find."""

    def commit(self, table: Any, intent: Intent, seq: int) -> None:
        self.journal.ended(seq, table.version + 1)
        with suppress(OSError):
            carry_out(self.library, table, intent, self.opening())


def writer_of(given: dict[str, Any]) -> KilledWriter:
    return {"pennon": KilledPennon, "lance": KilledLance, "hasty": Hasty}[given["library"]](given)
