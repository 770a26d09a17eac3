//! Work under a lock. Run it with `cargo run -p fencepost-client --example ship`, and a server on the default address.

use fencepost_client::{Client, Held};
use std::time::Duration;

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let client = Client::new("127.0.0.1:7420")?;
    let lock = client.acquire("orders/42").ttl(Duration::from_secs(10)).wait(Duration::from_secs(60)).await?;
    tokio::select! {
        shipped = ship(lock.held()) => println!("{}", shipped?),
        lost = lock.lost() => return Err(lost.into()), // drops the work
    }
    println!("held until the release: {}", lock.release().await?.was_held());
    Ok(())
}

/// The protected work. It sends the token with every write.
async fn ship(lock: Held) -> Result<String, std::io::Error> {
    tokio::time::sleep(Duration::from_millis(100)).await;
    Ok(format!("shipped {} under token {}", lock.name(), lock.token()))
}
