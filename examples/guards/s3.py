"""The guard for an object in S3 and stores like it, with boto3: the object keeps the highest token, and its grant.

They are in the body, not in the metadata. The ETag of an object may depend on its body alone, and then a holder that
raises the fence in the metadata leaves the ETag as it was, so that a late write with `If-Match` passes.
"""

import json

from botocore.exceptions import ClientError
from stale import StaleToken

# Answers to a write on a condition: the object has changed, is being changed, or was deleted.
CHANGED = ("PreconditionFailed", "ConditionalRequestConflict", "NoSuchKey")


def read(s3, bucket, key):
    """The fence and the text of an object, and the condition that it is still the same."""
    try:
        found = s3.get_object(Bucket=bucket, Key=key)
    except s3.exceptions.NoSuchKey:
        return {"token": 0, "grant_id": "", "text": ""}, {"IfNoneMatch": "*"}
    return json.load(found["Body"]), {"IfMatch": found["ETag"]}


def put(s3, bucket, key, token, grant_id, make_text):
    """Writes the text that `make_text` makes of the one before, unless a newer holder has written the object."""
    while True:
        before, unchanged = read(s3, bucket, key)
        if before["token"] > token or before["token"] == token and before["grant_id"] != grant_id:
            raise StaleToken(token, before["token"])
        text = make_text(before["text"])
        body = json.dumps({"token": token, "grant_id": grant_id, "text": text})
        try:
            s3.put_object(Bucket=bucket, Key=key, Body=body, **unchanged)
            return text
        except ClientError as error:
            if error.response["Error"]["Code"] not in CHANGED:
                raise


def raise_fence(s3, bucket, key, token, grant_id):
    """Raises the fence, and returns the text as no earlier holder can change it any more."""
    return put(s3, bucket, key, token, grant_id, lambda text: text)


def write(s3, bucket, key, token, grant_id, text):
    """Writes the text, unless a newer holder has raised the fence."""
    put(s3, bucket, key, token, grant_id, lambda _before: text)
