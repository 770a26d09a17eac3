//! What others see of a lock and of its queue, and what its holder is told.

use crate::{
    calls::{Lock, acquire_request, until, within},
    driver::Driver,
    world::{Cell, LONG, NO_WAIT, address, locks_at},
};
use serde_json::{Value, json};

/// Waits for a state of the lock that is as it should be. States before it may be missed.
async fn observed(client: &Driver, name: &str, is_right: impl Fn(&Value) -> bool) {
    until(async || client.events("observed", name).iter().any(&is_right)).await;
}

/// Who observes a lock sees who holds it, what the holder says of itself, and that nobody holds it.
pub(crate) async fn described(cell: Cell) {
    let (client, name, mut locks) = (cell.client().await, cell.name("lock"), cell.world.locks());
    client.call("observe", json!({ "name": name })).await.expect("it observes");
    observed(&client, &name, |state| state["holder"].is_null() && state["holders"] == 0).await;
    let token = client.acquire(&name, LONG).await.token;
    for number in 1..=2 {
        let metadata = json!({ "address": format!("a:{number}") });
        let answer = client.call("describe", json!({ "lock": name, "metadata": metadata })).await;
        assert_eq!(answer.expect("it is held")["number"], number);
    }
    let is_second = |state: &Value| state["metadata"]["address"] == "a:2" && state["description"] == 2;
    observed(&client, &name, |state| is_second(state) && state["token"] == token && state["holder"] == "interop").await;
    let renamed = json!({ "lock": name, "metadata": {}, "holder": "another" });
    assert_eq!(client.call("describe", renamed).await.expect("it is held")["number"], 3);
    observed(&client, &name, |state| state["holder"] == "another" && state["metadata"] == json!({})).await;
    let holder = locks.holder(&name).await.expect("a holder");
    assert_eq!((holder.holder.as_str(), holder.description), ("another", 3));
    assert_eq!(client.release(&name).await, "released");
    let free = async || client.events("observed", &name).last().is_some_and(|state| state["holder"].is_null());
    until(free).await;
}

/// Who observes goes on when the server is away for a while.
pub(crate) async fn over_a_restart(cell: Cell) {
    let server = cell.world.another_server(&[]);
    let (at, name) = (address(&server), cell.name("lock"));
    let client = cell.client_of(&[&at]).await;
    client.call("observe", json!({ "name": name })).await.expect("it observes");
    observed(&client, &name, |state| state["holder"].is_null()).await;
    let server = server.replace();
    let mut locks = locks_at(&at);
    let lease = within(locks.acquire_lease(acquire_request(&name, LONG))).await;
    observed(&client, &name, |state| state["token"] == lease.fencing_token && state["holder"] == "test").await;
    drop(server);
}

/// A holder is told that somebody waits, others see who, and a queue that is long enough refuses the next one.
pub(crate) async fn wanted(cell: Cell) {
    let (client, name, mut locks) = (cell.client().await, cell.name("lock"), cell.world.locks());
    let waits = format!("{name}/waits");
    let fields = json!({ "lock": name, "name": name, "ttl_ms": 600_000, "tell_when_wanted": true });
    client.call("acquire", fields).await.expect("it is free");
    let mut fields = json!({ "lock": waits, "name": name, "ttl_ms": 600_000, "wait_ms": 600_000, "shared": true });
    fields["owner"] = json!("job 7");
    let waiting = client.ask("acquire", fields).await;
    assert_eq!(client.event("wanted", &name).await["mode"], "shared");
    let shown = client.call("waiters", json!({ "name": name })).await.expect("waiters are shown");
    assert_eq!(shown["waiters"], json!([{ "holder": "interop", "owner": "job 7", "mode": "shared" }]));
    let fields = json!({ "lock": "third", "name": name, "wait_ms": 600_000, "max_waiters": 1 });
    let (kind, answer) = client.ask("acquire", fields).await.failed().await;
    assert_eq!((kind.as_str(), &answer["waiters"]), ("contended", &json!(1)), "{answer}");
    assert_eq!(client.events("wanted", &name).len(), 1);
    assert_eq!(client.release(&name).await, "released");
    waiting.granted().await;
    let holder = locks.lock_info(&name).await.holders.remove(0);
    assert_eq!(holder.owner, "job 7");
    assert_eq!(client.release(&waits).await, "released");
    assert_eq!(client.ask_acquire("free", &name, LONG, NO_WAIT).await.granted().await.permits, 0);
    assert_eq!(client.release("free").await, "released");
}
