//! Conversions, and what others see of a lock.

use super::{Answer, Driver, bad_request, failure, locked, mode_name, say, text};
use fencepost_client::{ConvertError, DescribeError, Held};
use serde_json::{Value, json};

impl Driver {
    /// Nobody else has the lock meanwhile.
    pub(crate) async fn convert(&self, request: &Value) -> Answer {
        let label = text(request, "lock")?;
        let taken = locked(&self.locks).get_mut(label).and_then(|entry| entry.lock.take());
        let mut lock = taken.ok_or_else(|| bad_request(&format!("no lock to convert is called {label}")))?;
        let converted = match text(request, "mode")? {
            "shared" => lock.downgrade().await.map(|()| true),
            _ => lock.try_upgrade().await,
        };
        let (token, mode) = (lock.token(), mode_name(lock.mode()));
        if let Some(entry) = locked(&self.locks).get_mut(label) {
            entry.lock = Some(lock);
        }
        match converted {
            Ok(converted) => Ok(json!({ "converted": converted, "token": token, "mode": mode })),
            Err(ConvertError::Lost(lost)) => Err(lost.into()),
            Err(ConvertError::Call(error)) => Err(error.into()),
            Err(other) => Err(failure("refused", &other.to_string())),
        }
    }

    pub(crate) async fn describe(&self, request: &Value) -> Answer {
        let mut describe = self.held(request)?.describe();
        for (key, value) in request["metadata"].as_object().into_iter().flatten() {
            describe = describe.metadata(key, value.as_str().unwrap_or_default());
        }
        if let Some(holder) = request["holder"].as_str() {
            describe = describe.holder(holder);
        }
        match describe.await {
            Ok(number) => Ok(json!({ "number": number })),
            Err(DescribeError::Lost(lost)) => Err(lost.into()),
            Err(DescribeError::Call(error)) => Err(error.into()),
            Err(other) => Err(failure("outdated", &other.to_string())),
        }
    }

    pub(crate) fn observe(&self, request: &Value) -> Answer {
        let name = text(request, "name")?.to_owned();
        let mut states = self.client()?.observe(&name);
        tokio::spawn(async move {
            while let Ok(lock) = states.next().await {
                let holder = lock.holders.first();
                say(&json!({
                    "event": "observed",
                    "name": name,
                    "holder": holder.map(|holder| &holder.label),
                    "token": holder.and_then(|holder| holder.token).unwrap_or_default(),
                    "holders": lock.holder_count,
                    "metadata": holder.map(|holder| &holder.metadata),
                    "description": holder.map_or(0, |holder| holder.description),
                }));
            }
        });
        Ok(json!({}))
    }

    pub(crate) async fn waiters(&self, request: &Value) -> Answer {
        let waiters = self.client()?.waiters(text(request, "name")?).await?;
        let shown = waiters
            .iter()
            .map(|waiter| json!({ "holder": waiter.label, "owner": waiter.owner, "mode": mode_name(waiter.mode) }));
        Ok(json!({ "waiters": shown.collect::<Vec<_>>() }))
    }
}

/// Reports once that somebody waits for a lock.
pub(crate) async fn tell_wanted(label: String, held: Held) {
    if let Some(mode) = held.wanted().await {
        say(&json!({ "event": "wanted", "lock": label, "mode": mode_name(mode) }));
    }
}
