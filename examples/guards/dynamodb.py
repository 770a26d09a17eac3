"""The guard for an item in DynamoDB, with boto3: the item keeps the highest token, and its grant."""

from stale import StaleToken

IS_CURRENT = (
    "attribute_not_exists(fence_token) OR fence_token < :token OR (fence_token = :token AND fence_grant_id = :grant_id)"
)


def raise_fence(table, key, token, grant_id):
    """Raises the fence, and returns the item as no earlier holder can change it any more."""
    return update(table, key, token, grant_id, IS_CURRENT, "fence_token = :token, fence_grant_id = :grant_id", {})


def write(table, key, token, grant_id, body):
    """Writes the body, after `raise_fence`, unless a newer holder has raised the fence."""
    is_own = "fence_token = :token AND fence_grant_id = :grant_id"
    return update(table, key, token, grant_id, is_own, "body = :body", {":body": body})


def update(table, key, token, grant_id, condition, assignments, values):
    try:
        updated = table.update_item(
            Key=key,
            ConditionExpression=condition,
            UpdateExpression=f"SET {assignments}",
            ExpressionAttributeValues={":token": token, ":grant_id": grant_id, **values},
            ReturnValues="ALL_NEW",
            ReturnValuesOnConditionCheckFailure="ALL_OLD",
        )
    except table.meta.client.exceptions.ConditionalCheckFailedException as refused:
        newest = refused.response.get("Item", {}).get("fence_token", {"N": "0"})
        raise StaleToken(token, int(newest["N"])) from None
    return updated["Attributes"]
