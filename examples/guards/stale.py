"""The error of all recipes."""


class StaleToken(Exception):
    """A newer holder of the lock has raised the fence. Stop: nothing was written."""

    def __init__(self, token, newest):
        super().__init__(f"stale token {token}: the store has seen {newest}, so a newer holder has the lock")
        self.token = token
        self.newest = newest
