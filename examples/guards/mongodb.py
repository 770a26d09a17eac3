"""The guard for a document in MongoDB, with pymongo: the document keeps the highest token, and its grant.

Use a client with the write concern `majority`, so that no failover takes a raised fence back.
"""

from bson.int64 import Int64
from pymongo import ReturnDocument
from pymongo.errors import DuplicateKeyError
from stale import StaleToken


def raise_fence(documents, key, token, grant_id):
    """Raises the fence, and returns the document as no earlier holder can change it any more."""
    fence = {"token": Int64(token), "grant_id": grant_id}
    is_current = [{"fence": None}, {"fence.token": {"$lt": token}}, {"fence": fence}]
    while True:
        try:
            return documents.find_one_and_update(
                {"_id": key, "$or": is_current},
                {"$set": {"fence": fence}},
                upsert=True,
                return_document=ReturnDocument.AFTER,
            )
        except DuplicateKeyError:
            # The document is there, and not as the filter asks. Or another holder has just made it: again.
            newest = documents.find_one({"_id": key})["fence"]
            if newest["token"] > token or newest["token"] == token and newest["grant_id"] != grant_id:
                raise StaleToken(token, newest["token"]) from None


def write(documents, key, token, grant_id, fields):
    """Writes fields, after `raise_fence`, unless a newer holder has raised the fence."""
    fence = {"token": Int64(token), "grant_id": grant_id}
    if documents.find_one_and_update({"_id": key, "fence": fence}, {"$set": fields}) is None:
        raise StaleToken(token, documents.find_one({"_id": key})["fence"]["token"])
