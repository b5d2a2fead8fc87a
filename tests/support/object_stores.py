"""S3 and DynamoDB as moto's server plays them, and the manifest stores with what they know of a table."""

from __future__ import annotations

import logging
import sqlite3
import threading
import uuid
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from unittest import mock
from urllib.request import Request, urlopen

import boto3
from botocore.config import Config
from moto.s3.responses import S3Response
from moto.server import ThreadedMotoServer

BUCKET = "pennon-tests"
MANIFESTS = "manifests"
KEYS = [("base_uri", "HASH", "S"), ("version", "RANGE", "N")]


@dataclass
class Cloud:
    """A server with one bucket and one DynamoDB table, on the loopback interface."""

    endpoint: str
    storage_options: dict[str, str] = field(init=False)
    s3: Any = field(init=False)
    dynamodb: Any = field(init=False)

    def __post_init__(self) -> None:
        self.storage_options = {
            "aws_endpoint": self.endpoint,
            "allow_http": "true",
            "aws_access_key_id": "key",
            "aws_secret_access_key": "secret",
            "aws_region": "us-east-1",
            "dynamodb_endpoint": self.endpoint,
        }
        self.s3, self.dynamodb = (
            boto3.client(
                service,
                endpoint_url=self.endpoint,
                region_name="us-east-1",
                aws_access_key_id="key",
                aws_secret_access_key="secret",
                config=Config(retries={"max_attempts": 1}),
            )
            for service in ("s3", "dynamodb")
        )
        self.s3.create_bucket(Bucket=BUCKET)
        self.create_table(MANIFESTS, KEYS)

    def create_table(self, name: str, keys: list[tuple[str, str, str]]) -> None:
        self.dynamodb.create_table(
            TableName=name,
            KeySchema=[{"AttributeName": key, "KeyType": kind} for key, kind, _ in keys],
            AttributeDefinitions=[{"AttributeName": key, "AttributeType": kind} for key, _, kind in keys],
            BillingMode="PAY_PER_REQUEST",
        )


@contextmanager
def atomic_puts() -> Iterator[None]:
    """S3 looks whether there is an object and puts another one in one step. Moto does not: of two threads that put
    objects of one name, if it is absent, both may succeed.
    """
    put, lock = S3Response.put_object, threading.Lock()

    def put_alone(response: S3Response) -> Any:
        with lock:
            return put(response)

    with mock.patch.object(S3Response, "put_object", put_alone):
        yield


@contextmanager
def running_cloud() -> Iterator[Cloud]:
    logging.getLogger("werkzeug").setLevel(logging.ERROR)
    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    with atomic_puts():
        server.start()
        try:
            host, port = server.get_host_and_port()
            yield Cloud(f"http://{host}:{port}")
            # What moto keeps belongs to the process: the next server starts empty.
            urlopen(Request(f"http://{host}:{port}/moto-api/reset", method="POST")).close()
        finally:
            server.stop()


class DynamoTable:
    """A table whose files are in the bucket and whose versions are in DynamoDB."""

    def __init__(self, cloud: Cloud) -> None:
        self.cloud = cloud
        self.path = f"tables/{uuid.uuid4().hex}"
        self.uri = f"s3+ddb://{BUCKET}/{self.path}?ddbTableName={MANIFESTS}"
        self.storage_options = cloud.storage_options

    def entries(self) -> dict[int, str]:
        items = self.cloud.dynamodb.scan(TableName=MANIFESTS)["Items"]
        own = [item for item in items if item["base_uri"]["S"] == self.path]
        return {int(item["version"]["N"]): item["path"]["S"] for item in own}

    def files(self) -> list[str]:
        listing = self.cloud.s3.list_objects_v2(Bucket=BUCKET, Prefix=f"{self.path}/_versions/")
        return sorted(found["Key"] for found in listing["Contents"] if ".manifest" in found["Key"])

    def copy(self, old: str, new: str) -> None:
        self.cloud.s3.copy_object(Bucket=BUCKET, Key=new, CopySource={"Bucket": BUCKET, "Key": old})

    def remove(self, path: str) -> None:
        self.cloud.s3.delete_object(Bucket=BUCKET, Key=path)

    def point(self, version: int, path: str | None) -> None:
        key = {"base_uri": {"S": self.path}, "version": {"N": str(version)}}
        if path is None:
            self.cloud.dynamodb.delete_item(TableName=MANIFESTS, Key=key)
            return
        self.cloud.dynamodb.update_item(
            TableName=MANIFESTS,
            Key=key,
            UpdateExpression="SET #p = :p",
            ExpressionAttributeNames={"#p": "path"},
            ExpressionAttributeValues={":p": {"S": path}},
        )


class SqliteTable:
    """A table on the local disk whose versions are in an SQLite file."""

    storage_options: dict[str, str] = {}

    def __init__(self, directory: Path) -> None:
        self.root = directory / "table"
        self.path = str(self.root).lstrip("/")
        self.database = self.root / "_manifests.sqlite"
        self.uri = f"file+sqlite://{self.root}"

    def run(self, statement: str, *values: object) -> list[tuple[Any, ...]]:
        with closing(sqlite3.connect(self.database)) as connection, connection:
            return connection.execute(statement, values).fetchall()

    def entries(self) -> dict[int, str]:
        return dict(self.run("SELECT version, path FROM manifests"))

    def files(self) -> list[str]:
        return sorted(str(path).lstrip("/") for path in self.root.glob("_versions/*.manifest*"))

    def copy(self, old: str, new: str) -> None:
        Path("/", new).write_bytes(Path("/", old).read_bytes())

    def remove(self, path: str) -> None:
        Path("/", path).unlink()

    def point(self, version: int, path: str | None) -> None:
        if path is None:
            self.run("DELETE FROM manifests WHERE version = ?", version)
        else:
            self.run("UPDATE manifests SET path = ? WHERE version = ?", path, version)


Table = DynamoTable | SqliteTable


def stop_after(table: Table, version: int, step: int) -> None:
    """Takes a finished commit back to where a writer that stopped after a step of the protocol leaves it."""
    (final,) = [path for path in table.files() if path == table.entries()[version]]
    staged = f"{final}-{uuid.uuid4()}"
    table.copy(final, staged)
    if step < 3:
        table.remove(final)
    if step < 4:
        table.point(version, staged if step > 1 else None)
