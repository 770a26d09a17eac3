//! Input from Redis: answers of scripts, messages between replicas, and its INFO report.

use deadpool_redis::redis::parse_redis_value;
use fencepost::{
    domain::time::StoreTime,
    node::{
        doctor::{ClockSample, Facts},
        replies,
    },
    store::{
        doctor::{self, Meta, StoreFacts},
        redis::{answer::Answer, effects, keys},
    },
};

/// Any bytes on the connection to Redis: each decoder decodes or refuses them.
pub fn redis(bytes: &[u8]) {
    let Some((kind, bytes)) = bytes.split_first() else { return };
    match kind % 5 {
        0 => {
            let _ = effects::message(bytes);
        }
        1 => report(bytes),
        2 => {
            if let Ok(key) = std::str::from_utf8(bytes) {
                let _ = (keys::lock_in(key), keys::pattern(key));
            }
        }
        3 => script(bytes),
        _ => reply(bytes),
    }
}

/// One answer, decoded as that of each command: a script of another version may answer anything.
fn script(bytes: &[u8]) {
    let read = || Answer::read(StoreTime::from_micros(1_795_000_000_000_000), bytes).ok();
    if read().is_none() {
        return;
    }
    let _ = read().map(Answer::acquire);
    let _ = read().map(Answer::release);
    let _ = read().map(Answer::renew);
    let _ = read().map(Answer::revoke);
    let _ = read().map(Answer::done);
    let _ = read().map(Answer::polled);
    let _ = read().map(Answer::view);
    let _ = read().map(|answer| answer.texts("meta"));
}

/// The whole reply of a script to two commands.
fn reply(bytes: &[u8]) {
    if let Ok(value) = parse_redis_value(bytes) {
        let _ = replies(value, 2);
    }
}

fn report(bytes: &[u8]) {
    let text = String::from_utf8_lossy(bytes);
    let settings = text.lines().filter_map(|line| line.split_once(':'));
    let settings = settings.map(|(name, value)| (name.to_owned(), value.to_owned())).collect();
    let numbers: Vec<u64> = text.split_whitespace().filter_map(|word| word.parse().ok()).collect();
    let time = |index: usize| StoreTime::from_micros(numbers.get(index).copied().unwrap_or_default());
    let facts = Facts {
        info: Ok(text.clone().into_owned()),
        settings: Ok(settings),
        scripts: Ok(()),
        clock: Ok(ClockSample { sent: time(0), redis: time(1), received: time(2) }),
    };
    let meta = Meta { buckets: text.clone().into_owned(), layout: text.into_owned(), classic: None };
    let own = StoreFacts { channels: Ok(()), meta: Ok(Some(meta)) };
    assert!(!doctor::judge(&facts, &own).is_empty(), "there is always a verdict");
}
