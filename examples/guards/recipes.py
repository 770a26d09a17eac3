#!/usr/bin/env python3
"""Runs the recipes for MongoDB, S3 and DynamoDB on emulators: mongomock and moto (see requirements.txt).

Each refuses the late write of an earlier holder, and the same write without the guard goes through.
"""

import inspect
import os
from concurrent.futures import ThreadPoolExecutor
from threading import Barrier, Lock

import boto3
import dynamodb
import mongodb
import mongomock
import s3
from moto import mock_aws
from stale import StaleToken

TOKEN_MAX = (1 << 53) - 1
REGION = "eu-central-1"


class OneByOne:
    """A client of an emulator. Makes each call atomic, as it is in the stores: the emulators do not."""

    def __init__(self, client):
        self.client, self.lock = client, Lock()

    def __getattr__(self, name):
        found = getattr(self.client, name)
        if not inspect.ismethod(found):
            return found

        def call(*arguments, **named):
            with self.lock:
                return found(*arguments, **named)

        return call


class MongoDB:
    def __init__(self):
        self.documents = OneByOne(mongomock.MongoClient().database.documents)
        self.documents.insert_one({"_id": "old", "body": "from before the guard"})

    def raise_fence(self, key, token, grant_id):
        return mongodb.raise_fence(self.documents, key, token, grant_id).get("body", "")

    def write(self, key, token, grant_id, body):
        mongodb.write(self.documents, key, token, grant_id, {"body": body})

    def write_unguarded(self, key, body):
        self.documents.find_one_and_update({"_id": key}, {"$set": {"body": body}})

    def read(self, key):
        return self.documents.find_one({"_id": key})["body"]


class DynamoDB:
    def __init__(self):
        table = boto3.resource("dynamodb", region_name=REGION).create_table(
            TableName="documents",
            KeySchema=[{"AttributeName": "id", "KeyType": "HASH"}],
            AttributeDefinitions=[{"AttributeName": "id", "AttributeType": "S"}],
            BillingMode="PAY_PER_REQUEST",
        )
        self.table = OneByOne(table)
        self.table.put_item(Item={"id": "old", "body": "from before the guard"})

    def raise_fence(self, key, token, grant_id):
        return dynamodb.raise_fence(self.table, {"id": key}, token, grant_id).get("body", "")

    def write(self, key, token, grant_id, body):
        dynamodb.write(self.table, {"id": key}, token, grant_id, body)

    def write_unguarded(self, key, body):
        self.table.update_item(
            Key={"id": key}, UpdateExpression="SET body = :body", ExpressionAttributeValues={":body": body}
        )

    def read(self, key):
        return self.table.get_item(Key={"id": key})["Item"]["body"]


class S3:
    def __init__(self):
        self.s3 = OneByOne(boto3.client("s3", region_name=REGION))
        self.s3.create_bucket(Bucket="documents", CreateBucketConfiguration={"LocationConstraint": REGION})
        s3.write(self.s3, "documents", "old", 0, "", "from before the guard")

    def raise_fence(self, key, token, grant_id):
        return s3.raise_fence(self.s3, "documents", key, token, grant_id)

    def write(self, key, token, grant_id, body):
        s3.write(self.s3, "documents", key, token, grant_id, body)

    def write_unguarded(self, key, body):
        before, _unchanged = s3.read(self.s3, "documents", key)
        self.s3.put_object(Bucket="documents", Key=key, Body=s3.json.dumps({**before, "text": body}))

    def read(self, key):
        return s3.read(self.s3, "documents", key)[0]["text"]


def stale(call, *arguments):
    """The tokens of the error with which the call has to end."""
    try:
        call(*arguments)
    except StaleToken as error:
        return error.token, error.newest
    raise AssertionError("a stale token passed")


def run(store):
    # The first holder raises and reads, and is paused. Its lease expires, and a second holder writes.
    assert store.raise_fence("plan", 7, "g7") == ""
    store.write("plan", 7, "g7", "by the first")
    assert store.raise_fence("plan", 9, "g9") == "by the first"
    assert stale(store.write, "plan", 7, "g7", "late, before the second has written") == (7, 9)
    store.write("plan", 9, "g9", "by the second")
    # The late write is refused, and so is that of another grant with the same token.
    for token, grant_id in [(7, "g7"), (8, "g8"), (9, "other")]:
        assert stale(store.write, "plan", token, grant_id, "late") == (token, 9)
        assert stale(store.raise_fence, "plan", token, grant_id) == (token, 9)
    assert store.read("plan") == "by the second"
    store.write("plan", 9, "g9", "by the second again")
    # The control: without the guard, the late write overwrites the newer one.
    store.write_unguarded("plan", "late, without the guard")
    assert store.read("plan") == "late, without the guard"
    # Data from before the guard, and the largest tokens.
    assert store.raise_fence("old", TOKEN_MAX - 1, "g") == "from before the guard"
    assert store.raise_fence("old", TOKEN_MAX, "h") == "from before the guard"
    assert stale(store.write, "old", TOKEN_MAX - 1, "g", "late") == (TOKEN_MAX - 1, TOKEN_MAX)
    first_writes(store)


def first_writes(store):
    """Two holders make the same document. The newer one always gets in, and the older one never after it."""
    for number in range(20):
        start, key = Barrier(2), f"new/{number}"

        def holder(token, key=key, start=start):
            start.wait()
            try:
                store.raise_fence(key, token, f"g{token}")
                store.write(key, token, f"g{token}", f"by {token}")
            except StaleToken:
                assert token == 1

        with ThreadPoolExecutor(2) as pool:
            list(pool.map(holder, (1, 2)))
        assert store.read(key) == "by 2"


def metadata_is_not_enough():
    """In S3, a fence in the metadata lets the late write through: the second holder wrote the same bytes."""
    client = boto3.client("s3", region_name=REGION)
    client.create_bucket(Bucket="metadata", CreateBucketConfiguration={"LocationConstraint": REGION})
    key = {"Bucket": "metadata", "Key": "plan"}
    first = client.put_object(**key, Body=b"text", Metadata={"token": "7"})
    client.put_object(**key, Body=b"text", Metadata={"token": "9"}, IfMatch=first["ETag"])
    client.put_object(**key, Body=b"late", Metadata={"token": "7"}, IfMatch=first["ETag"])
    assert client.get_object(**key)["Body"].read() == b"late"


def main():
    os.environ.update(AWS_ACCESS_KEY_ID="test", AWS_SECRET_ACCESS_KEY="test")
    with mock_aws():
        for store in (MongoDB, S3, DynamoDB):
            run(store())
            print(f"{store.__name__}: the late write is refused, and goes through without the guard")
        metadata_is_not_enough()
        print("S3: with the token in the metadata, the late write goes through")


main()
