"""Compares every version of a table with the model: the intents that were committed, in the order of versions.

Whoever made a version says so in its journal, or was killed before it could. Then the version must be what one of
the intents without an end makes of the version before. An acknowledged commit that is not in the version that its
writer got as committed is lost.
"""

from __future__ import annotations

import math
import random
from collections import Counter
from collections.abc import Callable
from itertools import product
from pathlib import Path
from typing import Any

import lance
import pennon
from soak.answers import difference
from soak.effects import BASE, LINEAGE, CannotApplyError, Intent, Row, State, applied
from soak.journal import Proposal, Tail
from support.origins import is_overwritten

# Operations that change no row.
NEUTRAL = ("Rewrite", "CreateIndex", "ReserveFragments", "UpdateConfig")
KINDS = {
    "append": ("Append",),
    "overwrite": ("Overwrite",),
    "restore": ("Restore",),
    "add_column": ("Merge", "Project"),
    "drop_column": ("Project",),
    "rename_column": ("Project",),
    "compact": ("Rewrite",),
    "index": ("CreateIndex",),
    "optimize": ("CreateIndex",),
    "config": ("UpdateConfig",),
}
OTHERS = ("Delete", "Update", "DataReplacement", "Merge", "Append")


class LostError(Exception):
    """A version is not what the model says, or an acknowledged commit is missing."""


class Fold:
    """The model of a table and the versions that were compared with it."""

    # Operations that writers do not log, and how many states are kept.
    unlogged, most_states = NEUTRAL, 150

    def __init__(self, uri: str, options: dict[str, str], journals: list[Path], seed: str) -> None:
        self.uri, self.options, self.dice = uri, options, random.Random(f"{seed} fold")
        self.known = {"storage_options": options} if options else {}
        self.table = pennon.dataset(uri, **self.known)
        self.tails = [Tail(journal, writer) for writer, journal in enumerate(journals, 1)]
        self.counts: Counter[str] = Counter()
        self.version = 0
        self.states: dict[int, State] = {}
        self.fields: dict[int, dict[int, str]] = {}
        # Acknowledged proposals of versions not yet compared, and versions found before they were acknowledged.
        self.pending: dict[int, Proposal] = {}
        self.found: dict[int, tuple[Proposal, list[Proposal]]] = {}

    def begin(self, state: State, version: int) -> None:
        """The table as it was made."""
        self.version = version
        self.accept(state, version, None)

    # Journals.

    def read_journals(self) -> None:
        for tail in self.tails:
            for proposal in tail.read():
                self.acknowledged(tail, proposal)

    def acknowledged(self, tail: Tail, proposal: Proposal) -> None:
        version = proposal.version
        assert version is not None
        if not proposal.is_acknowledged:
            self.another(version, f"version {version} has what its writer got as failed: {shown(proposal)}")
            return
        if proposal.taken_for in self.found:
            wrong = (
                f"version {proposal.taken_for} is of no intent but {shown(proposal)}, which is version {version}"
            )
            self.another(proposal.taken_for, wrong)
        if version > self.version:
            if version in self.pending:
                raise LostError(
                    f"two commits are version {version}: {shown(proposal)}, {shown(self.pending[version])}"
                )
            self.pending[version] = proposal
            return
        chosen, others = self.found.get(version, (None, []))
        if chosen is not proposal:
            # Of several intents that make the same of the version before, another one was taken.
            if proposal not in others or chosen is None or chosen.is_acknowledged:
                raise LostError(f"version {version} is not that of its acknowledged commit: {shown(proposal)}")
            chosen.version = None
            self.tails[chosen.writer - 1].open[chosen.seq] = chosen
            self.found[version] = proposal, []
        self.prune(tail, proposal)

    def another(self, version: int, wrong: str) -> None:
        """The intent that was found for a version is not its one: the next of those that make the same."""
        others = [proposal for proposal in self.found[version][1] if not proposal.is_acknowledged]
        if not others:
            raise LostError(wrong)
        others[0].version = version
        self.found[version] = others[0], others[1:]

    def prune(self, tail: Tail, proposal: Proposal) -> None:
        """What a writer left long before it made a version can not be committed any more."""
        for seq, old in [*tail.open.items()]:
            if seq < proposal.seq - 3 and (old.version is None or old.version < self.version - self.most_states):
                self.forgotten(tail.open.pop(seq))

    def forgotten(self, proposal: Proposal) -> None:
        if proposal.version is None and proposal.between is not None:
            begin, end = proposal.between
            raise LostError(f"no version from {begin + 1} to {end} has an acknowledged commit: {shown(proposal)}")

    def candidates(self, operation: str) -> list[Proposal]:
        """Intents without an end that may have made a version."""
        found = [proposal for tail in self.tails for proposal in tail.open.values() if proposal.version is None]
        return [p for p in found if operation in KINDS.get(p.intent["kind"], OTHERS)]

    # Versions.

    def check(self, after_each: Callable[[], None] = lambda: None) -> int:
        """Compares the versions that were made since the last call; how many there were."""
        self.table.checkout_latest()
        newest = self.table.version
        done = 0
        for version in range(self.version + 1, newest + 1):
            self.read_journals()
            self.compare(version)
            self.version = version
            done += 1
            after_each()
        self.read_journals()
        for tail in self.tails:
            for proposal in [*tail.open.values()]:
                if proposal.between is not None and proposal.between[1] <= self.version:
                    self.forgotten(proposal)
                    self.prune(tail, proposal)
        return done

    def end(self) -> None:
        """After all writers ended: nothing that was acknowledged is missing."""
        if self.pending:
            missing = [f"version {version}: {shown(lost)}" for version, lost in self.pending.items()]
            raise LostError("acknowledged commits are missing: " + "; ".join(missing))
        for tail in self.tails:
            for proposal in tail.open.values():
                self.forgotten(proposal)

    def all_killed(self) -> int:
        """After all writers were killed: what they left is never committed. How many intents have no end."""
        self.end()
        left = sum(proposal.between is None for tail in self.tails for proposal in tail.open.values())
        for tail in self.tails:
            tail.open.clear()
        return left

    def compare(self, version: int) -> None:
        table = self.table.checkout_version(version)
        transaction = table.read_transaction(version)
        operation = "Unknown" if transaction is None else type(transaction.operation).__name__
        before = self.states[version - 1]
        found = Content(table)
        acknowledged = self.pending.pop(version, None)
        if acknowledged is not None:
            if not is_of(acknowledged.intent, operation, transaction):
                raise LostError(f"version {version}, {operation}, is not that of {shown(acknowledged)}")
            state = found.completed(applied(before, acknowledged.intent, version, self.states))
            found.same(state, f"version {version}, {operation}: {shown(acknowledged)}")
            self.found[version] = acknowledged, []
        elif operation in NEUTRAL:
            state = before
            found.same(state, f"version {version}, {operation}")
            self.unacknowledged_neutral(version, operation, transaction)
        else:
            state = self.unacknowledged(version, operation, before, found)
        self.accept(state, version, found)
        self.counts[f"version {operation}"] += 1
        self.also(table, version)

    def unacknowledged(self, version: int, operation: str, before: State, found: Content) -> State:
        fitting, misfits = [], []
        for proposal in self.candidates(operation):
            try:
                state = found.completed(applied(before, proposal.intent, version, self.states))
                found.same(state, shown(proposal))
            except (CannotApplyError, LostError) as error:  # noqa: PERF203
                misfits.append(f"{shown(proposal)}: {error}")
            else:
                fitting.append((proposal, state))
        if not fitting:
            lines = "\n  ".join(misfits)
            raise LostError(f"version {version}, {operation}: no open intent makes it; tried\n  {lines}")
        self.find(version, [proposal for proposal, _ in fitting])
        return fitting[0][1]

    def unacknowledged_neutral(self, version: int, operation: str, transaction: Any) -> None:
        fitting = [p for p in self.candidates(operation) if is_of(p.intent, operation, transaction)]
        fitting = [p for p in fitting if p.between is None or p.between[0] < version <= p.between[1]]
        if fitting:
            # The first one that must be found, if there is one.
            self.find(version, sorted(fitting, key=lambda p: math.inf if p.between is None else p.between[1]))
        elif operation not in self.unlogged:
            raise LostError(f"version {version}, {operation}: no open intent makes it")

    def find(self, version: int, fitting: list[Proposal]) -> None:
        """Intents without an end of which the first one is taken for that of a version."""
        fitting[0].version = version
        self.found[version] = fitting[0], fitting[1:]
        self.counts["found without acknowledgement"] += fitting[0].between is None

    def accept(self, state: State, version: int, found: Content | None) -> None:
        self.states[version] = state
        table = self.table.checkout_version(version) if found is None else found.table
        self.fields[version] = {field.id: field.name for field in table.lance_schema.fields()}
        self.states.pop(version - self.most_states, None)
        self.fields.pop(version - self.most_states, None)
        self.found.pop(version - self.most_states, None)

    def also(self, table: Any, version: int) -> None:
        """The feed since the version before and between two others; what the reference reads."""
        self.feed(version - 1, version)
        if self.dice.random() < 0.25:
            kept = {entry["version"] for entry in table.version_refs()} & self.states.keys()
            begin, end = sorted(self.dice.choices(sorted(kept), k=2))
            self.tolerant(lambda: self.feed(begin, end), begin, end)
        if self.dice.random() < 0.25:
            theirs = lance.dataset(self.uri, version=version, **self.known)
            Content(theirs).same(self.states[version], f"version {version}, as the reference reads it")
            theirs.validate()
            self.counts["read by pylance"] += 1
        if self.dice.random() < 0.1:
            older = self.dice.choice(sorted(self.states))
            self.tolerant(
                lambda: Content(self.table.checkout_version(older)).same(
                    self.states[older], f"version {older}, when version {version} was there"
                ),
                older,
            )

    def tolerant(self, act: Callable[[], None], *versions: int) -> None:
        """Versions may be cleaned up while they are read."""
        try:
            act()
        except (OSError, ValueError):
            kept = {entry["version"] for entry in pennon.dataset(self.uri, **self.known).version_refs()}
            if kept.issuperset(versions):
                raise

    def feed(self, begin: int, end: int) -> None:
        """The changes from one version to another are those of the model."""
        found: dict[int, list[tuple[str, Any]]] = {}
        for change in self.table.checkout_version(end).changes(begin, end, images="both").read_all().to_pylist():
            kind, row = change.pop("_change_type"), change.pop("_rowid")
            del change["_commit_version"], change["_commit_timestamp"]
            found.setdefault(row, []).append((kind, change))
        for positions in self.positions(begin, end):
            expected = self.expected_feed(begin, end, positions)
            if found == expected:
                break
        else:
            rows = [row for row in expected.keys() | found.keys() if expected.get(row) != found.get(row)]
            lines = [f"row {row}: expected {expected.get(row)}, found {found.get(row)}" for row in rows[:10]]
            raise LostError(f"changes from {begin} to {end} differ:\n  " + "\n  ".join(lines))
        self.counts["feeds"] += 1

    def positions(self, begin: int, end: int) -> list[dict[str, int | None]]:
        """The position of each column of the end at the begin, in all ways that a feed may have them."""
        columns, before = self.states[begin].columns, self.fields[begin]
        found: dict[str, set[str | None]] = {}
        for field, name in self.fields[end].items():
            by_id, by_name = before.get(field), name if name in columns else None
            if by_id == by_name:
                found[name] = {by_id}
                continue
            overwritten = is_overwritten(self.table, begin, end)
            if overwritten is None:
                found[name] = {by_id, by_name, None}
            else:
                # A field id may have been given out again.
                found[name] = {by_name} if overwritten else {by_id, None}
        return [
            {name: None if own is None else columns.index(own) for name, own in zip(found, chosen, strict=True)}
            for chosen in product(*found.values())
        ]

    def expected_feed(
        self, begin: int, end: int, positions: dict[str, int | None]
    ) -> dict[int, list[tuple[str, Any]]]:
        old, new = self.states[begin], self.states[end]
        expected: dict[int, list[tuple[str, Any]]] = {}
        olds = {row.id: (key, *row.values) for key, row in old.rows.items()}
        updated = {row.id: row.updated for row in old.rows.values()}
        for key, row in new.rows.items():
            values = olds.pop(row.id, None)
            if (
                values is not None
                and updated[row.id] == row.updated
                and positions_same(positions, new)
                and (values == (key, *row.values))
            ):
                continue
            now = dict(zip(new.columns, (key, *row.values), strict=True))
            if values is None:
                expected[row.id] = [("insert", now)]
                continue
            then = {name: None if at is None else values[at] for name, at in positions.items()}
            if updated[row.id] != row.updated or then != now:
                expected[row.id] = [("update_preimage", then), ("update_postimage", now)]
        for id, values in olds.items():
            then = {name: None if at is None else values[at] for name, at in positions.items()}
            expected[id] = [("delete", then)]
        return expected


def is_of(intent: Intent, operation: str, transaction: Any) -> bool:
    """Whether an operation is of the sort of an intent; of those that change no row, whether it is that of it."""
    kinds = KINDS.get(intent["kind"], OTHERS)
    if operation not in NEUTRAL:
        return not set(kinds) & set(NEUTRAL)
    if intent["kind"] == "config":
        updates = transaction.operation.config_updates
        return operation in kinds and updates is not None and updates.updates.get(intent["key"]) == intent["value"]
    if intent["kind"] == "index":
        return operation in kinds and intent["name"] in [index.name for index in transaction.operation.new_indices]
    return operation in kinds


def positions_same(positions: dict[str, int | None], new: State) -> bool:
    return all(positions[name] == at for at, name in enumerate(new.columns))


class Content:
    """The rows of a version, as a library reads them."""

    def __init__(self, table: Any) -> None:
        self.table = table
        self.columns = tuple(table.schema.names)
        found = table.to_table(columns=[*self.columns, *LINEAGE])
        # In the order of the names here, whatever is returned.
        lists = {name: found[name].to_pylist() for name in (*self.columns, *LINEAGE)}
        self.count = found.num_rows
        columns = [lists[name] for name in (*LINEAGE, *(name for name in self.columns if name != "id"))]
        self.rows = {
            key: Row(row[0], row[1], row[2], row[3:])
            for key, row in zip(lists["id"], zip(*columns, strict=True), strict=True)
        }

    def completed(self, state: State) -> State:
        """The state with the ids of its new rows: the next ones, in whatever order."""
        new = [key for key, row in state.rows.items() if row.id < 0]
        if not new:
            return state
        ids = {key: self.rows[key].id for key in new if key in self.rows}
        expected = range(state.next_row, state.next_row + len(new))
        if sorted(ids.values()) != [*expected]:
            raise LostError(f"new rows should have the ids {expected}, found {sorted(ids.values())[:20]}")
        rows = dict(state.rows)
        for key in new:
            rows[key] = rows[key]._replace(id=ids[key])
        return State(rows, state.columns, state.next_row + len(new))

    def same(self, state: State, what: str) -> None:
        if self.columns != state.columns:
            raise LostError(f"{what}: expected columns {state.columns}, found {self.columns}")
        if self.count != len(self.rows):
            raise LostError(f"{what}: {self.count - len(self.rows)} keys are there twice")
        if self.rows != state.rows:
            lines = difference([*state.rows.items()], [*self.rows.items()])
            raise LostError("\n  ".join([what, *lines]))


def shown(proposal: Proposal) -> str:
    return f"writer {proposal.writer}: {proposal.intent}"


def first_state(salt: int, table: Any) -> State:
    """The model of a table that was made of `SHARED` rows."""
    from soak.effects import SHARED, values_of

    rows = {key: Row(-1, table.version, table.version, values_of(key, salt)) for key in range(SHARED)}
    return Content(table).completed(State(rows, BASE, 0))
