"""A worker that takes one job at a time, and stops when it loses the lock of the job."""

from __future__ import annotations

from fencepost import Client, Contended, LockLost, Loss


def step(job: str, number: int, token: int) -> None:
    """One step of the work. It sends the token with its write, and the store refuses lower ones."""
    print(f"{job}: step {number} with token {token}")


def work(client: Client, job: str) -> None:
    def lost(loss: Loss) -> None:
        print(f"{job}: lost ({loss.reason.value}), stopping")

    try:
        with client.lock(f"jobs/{job}", ttl=10, on_lost=lost, metadata={"version": "1.4"}) as lock:
            for number in range(3):
                lock.check()  # raises LockLost
                step(job, number, lock.token)
    except Contended as error:
        print(f"{job}: {error}")
    except LockLost as error:
        print(f"{job} is unfinished: {error}")


def main() -> None:
    with Client() as client:
        for job in ("report", "invoices"):
            work(client, job)


if __name__ == "__main__":
    main()
