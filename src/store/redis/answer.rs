//! What the scripts answer, turned into the terms of the rules. The codes are named here once, beside `lua/`, which speaks them.

use super::{links::Value, packed::unpack};
use crate::{
    domain::{
        ids::{AttachmentId, GrantId, LeaseId, ReplicaId, RequestId},
        lease::LeaseEnd,
        name::{Holder, LockName, Metadata},
        outcome::{
            AcquireOutcome, ClassicHold, Contention, Fate, Gone, Grant, HolderView, LockView, Polled, ReleaseOutcome,
            RenewOutcome, Renewed, RevokeOutcome,
        },
        time::StoreTime,
        token::FencingToken,
    },
    store::{Event, EventKind, StoreError},
};
use std::{collections::HashMap, time::Duration};
use uuid::Uuid;

/// A script's answer, not yet looked at.
#[derive(Debug)]
pub struct Answer {
    /// The time that the script went by.
    pub now: StoreTime,
    /// What it set off.
    pub effects: Vec<RedisEffect>,
    code: String,
    details: Details,
}

/// What a script has set off beyond its answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RedisEffect {
    /// The calls of this attempt, on this replica, should claim.
    LookAgain(ReplicaId, RequestId, u32),
    /// The lock was granted.
    Granted(LeaseId),
    /// A lease ended; if a stream kept it, that is to be told.
    Ended {
        /// How.
        end: LeaseEnd,
        /// Which.
        lease_id: LeaseId,
        /// Its stream, and the replica of that.
        attachment: Option<(AttachmentId, ReplicaId)>,
    },
    /// An attachment was replaced.
    Detached(ReplicaId, LeaseId, AttachmentId),
    /// Something happened, for those who watch on this replica.
    Event(Box<Event>),
    /// The replica that asked had been silent for so long that waiters of it may have been deleted.
    ReplicaReturned,
}

/// The details of an answer, taken one by one.
#[derive(Debug)]
struct Details(std::vec::IntoIter<Value>);

pub(super) type Decoded<T> = Result<T, StoreError>;

pub(super) fn corrupt(what: &str) -> StoreError {
    StoreError::Corrupt(format!("{what} in the answer of a script"))
}

fn array(value: Value) -> Decoded<Vec<Value>> {
    match value {
        Value::Array(values) => Ok(values),
        other => Err(corrupt(&format!("no list but {other:?}"))),
    }
}

fn text(value: Value) -> Decoded<String> {
    match value {
        Value::BulkString(bytes) => String::from_utf8(bytes).map_err(|_| corrupt("a text that is no UTF-8")),
        Value::SimpleString(text) => Ok(text),
        Value::Int(number) => Ok(number.to_string()),
        other => Err(corrupt(&format!("no text but {other:?}"))),
    }
}

pub(super) fn uuid(text: &str) -> Decoded<Uuid> {
    Uuid::try_parse(text).map_err(|_| corrupt("no id"))
}

pub(super) fn number(text: &str) -> Decoded<u64> {
    text.parse().map_err(|_| corrupt("no number"))
}

pub(super) fn token(text: &str) -> Decoded<FencingToken> {
    FencingToken::new(number(text)?).ok_or_else(|| corrupt("no token"))
}

pub(super) fn end(text: &str) -> Decoded<LeaseEnd> {
    match text {
        "R" => Ok(LeaseEnd::Released),
        "E" => Ok(LeaseEnd::Expired),
        "V" => Ok(LeaseEnd::Revoked),
        _ => Err(corrupt("no end of a lease")),
    }
}

impl Details {
    fn text(&mut self) -> Decoded<String> {
        text(self.0.next().ok_or_else(|| corrupt("too little"))?)
    }

    fn maybe(&mut self) -> Decoded<Option<String>> {
        Ok(Some(self.text()?).filter(|text| !text.is_empty()))
    }

    fn span(&mut self) -> Decoded<Duration> {
        Ok(Duration::from_micros(number(&self.text()?)?))
    }

    /// Lists of both; or, from a quick path, how many details, they, and the one effect if there is one.
    fn details_and_effects(&mut self) -> Decoded<(Details, Vec<RedisEffect>)> {
        if let Some(Value::Int(count)) = self.0.as_slice().first() {
            let count = usize::try_from(*count).map_err(|_| corrupt("no count"))?;
            self.0.next();
            let details = Details(self.0.by_ref().take(count).collect::<Vec<_>>().into_iter());
            let effect = self.0.by_ref().collect::<Vec<_>>();
            let effects = if effect.is_empty() { Vec::new() } else { vec![self::effect(Value::Array(effect))?] };
            return Ok((details, effects));
        }
        let mut next = || self.0.next().ok_or_else(|| corrupt("too little"));
        let details = Details(array(next()?)?.into_iter());
        Ok((details, array(next()?)?.into_iter().map(effect).collect::<Decoded<_>>()?))
    }

    fn left(&self) -> usize {
        self.0.len()
    }

    /// Who holds the lock past the rules: the milliseconds that PTTL says (-1: no end), or nothing.
    fn classic(&mut self) -> Decoded<Option<ClassicHold>> {
        if self.left() == 0 {
            return Ok(None);
        }
        let pttl = self.text()?.parse::<i64>().map_err(|_| corrupt("no number"))?;
        Ok(Some(ClassicHold { left: u64::try_from(pttl).ok().map(Duration::from_millis) }))
    }
}

impl Answer {
    /// Reads the answer to one command: its code, details, effects. One that failed by itself is the error that Redis would have said.
    pub fn read(now: StoreTime, packed: &[u8]) -> Decoded<Self> {
        let mut frame = Details(unpack(packed).ok_or_else(|| corrupt("bytes that make no sense"))?.into_iter());
        let code = frame.text()?;
        let (mut details, effects) = frame.details_and_effects()?;
        if code == "broken" {
            return Err(StoreError::Corrupt(details.text()?));
        }
        Ok(Self { now, effects, code, details })
    }

    /// Whether the command came too late to act.
    pub(super) fn is_too_late(&self) -> bool {
        self.code == "too_late"
    }

    /// Whether it was meant for a life of Redis that is over.
    pub(super) fn is_left_behind(&self) -> bool {
        self.code == "left_behind"
    }

    /// As the answer of acquire, claim and give_up.
    pub fn acquire(mut self) -> Decoded<AcquireOutcome> {
        let it = &mut self.details;
        Ok(match self.code.as_str() {
            "granted" => AcquireOutcome::Granted(Grant {
                lease_id: LeaseId(uuid(&it.text()?)?),
                grant_id: GrantId(uuid(&it.text()?)?),
                token: token(&it.text()?)?,
                left: it.span()?,
                previous_end: it.maybe()?.map(|text| end(&text)).transpose()?,
            }),
            "contended" => AcquireOutcome::Contended(Box::new(contention(it)?)),
            "timed_out" => AcquireOutcome::TimedOut(Box::new(contention(it)?)),
            "queued" => AcquireOutcome::Queued,
            "shared" => AcquireOutcome::Shared,
            "overtaken" => AcquireOutcome::Overtaken,
            "ended" => AcquireOutcome::Ended,
            "unknown" => AcquireOutcome::Unknown,
            "other_terms" => AcquireOutcome::OtherTerms,
            "min_token_too_high" => AcquireOutcome::MinTokenTooHigh(number(&it.text()?)?),
            "queue_full" => AcquireOutcome::QueueFull,
            "too_late" => AcquireOutcome::TooLate(self.now),
            "left_behind" => AcquireOutcome::LeftBehind,
            "exhausted" => AcquireOutcome::TokensExhausted,
            _ => return Err(self.unknown_code()),
        })
    }

    /// Of an answer that a request is queued: its place, and the first one in line.
    pub(super) fn queued_at(&mut self) -> Decoded<Option<(u64, u64)>> {
        if self.code != "queued" {
            return Ok(None);
        }
        let place = number(&self.details.text()?)?;
        let first = self.details.maybe()?.map_or(Ok(place), |text| number(&text))?;
        Ok(Some((place, first)))
    }

    /// As the answer of release.
    pub fn release(mut self) -> Decoded<ReleaseOutcome> {
        match self.code.as_str() {
            "released" => Ok(ReleaseOutcome::Released),
            "gone" => Ok(ReleaseOutcome::Gone(gone(&mut self.details)?)),
            _ => Err(self.unknown_code()),
        }
    }

    /// As the answer of renew and attach.
    pub fn renew(mut self) -> Decoded<RenewOutcome> {
        let it = &mut self.details;
        match self.code.as_str() {
            "renewed" => {
                let token = token(&it.text()?)?;
                Ok(RenewOutcome::Renewed(Renewed { token, ttl: it.span()?, left: it.span()? }))
            }
            "gone" => Ok(RenewOutcome::Lost(gone(it)?)),
            "attached_elsewhere" => Ok(RenewOutcome::AttachedElsewhere),
            _ => Err(self.unknown_code()),
        }
    }

    /// As the answer of force_release.
    pub fn revoke(mut self) -> Decoded<RevokeOutcome> {
        match self.code.as_str() {
            "revoked" => Ok(RevokeOutcome::Revoked(holder(self.details.text()?)?)),
            "not_held" => Ok(RevokeOutcome::NotHeld),
            "token_mismatch" => Ok(RevokeOutcome::TokenMismatch(token(&self.details.text()?)?)),
            _ => Err(self.unknown_code()),
        }
    }

    /// As the answer of drop_call, detach and disconnect.
    pub fn done(self) -> Decoded<()> {
        if self.code == "done" { Ok(()) } else { Err(self.unknown_code()) }
    }

    /// As the answer of poll, lock by lock.
    pub fn polled(self) -> Decoded<Vec<Polled>> {
        if self.code != "polled" {
            return Err(self.unknown_code());
        }
        let each = |value: Value| {
            let mut it = Details(array(value)?.into_iter());
            let (request, attempt, waiters) = (it.maybe()?, number(&it.text()?)?, number(&it.text()?)?);
            let first_place = it.maybe()?.map(|text| number(&text)).transpose()?;
            let request = request.map(|text| uuid(&text)).transpose()?.map(RequestId);
            let attempt = u32::try_from(attempt).map_err(|_| corrupt("no attempt"))?;
            let waiters = usize::try_from(waiters).map_err(|_| corrupt("no count"))?;
            Ok(Polled { offered: request.map(|request| (request, attempt)), waiters, first_place })
        };
        self.details.0.map(each).collect()
    }

    /// As the answer of meta and list: plain texts.
    pub fn texts(self, code: &str) -> Decoded<Vec<String>> {
        if self.code != code {
            return Err(self.unknown_code());
        }
        self.details.0.map(text).collect()
    }

    /// As the answer of view.
    pub fn view(mut self) -> Decoded<LockView> {
        if self.code != "seen" {
            return Err(self.unknown_code());
        }
        let fields = array(self.details.0.next().ok_or_else(|| corrupt("too little"))?)?;
        let mut texts = fields.into_iter().map(text);
        let mut lock = HashMap::new();
        while let (Some(field), Some(value)) = (texts.next(), texts.next()) {
            lock.insert(field?, value?);
        }
        let waiters = usize::try_from(number(&self.details.text()?)?).map_err(|_| corrupt("no count"))?;
        let mut view = super::view::view(&lock, waiters, self.now)?;
        view.classic = self.details.classic()?;
        // A lease beside it is over, whether or not a command came by that said so.
        view.current = view.current.filter(|_| view.classic.is_none());
        Ok(view)
    }

    fn unknown_code(&self) -> StoreError {
        corrupt(&format!("the code {:?}", self.code))
    }
}

fn contention(it: &mut Details) -> Decoded<Contention> {
    let waiters = usize::try_from(number(&it.text()?)?).map_err(|_| corrupt("no count"))?;
    if it.left() < 2 {
        return Ok(Contention { current: None, classic: it.classic()?, waiters });
    }
    let current = HolderView {
        holder: holder(it.text()?)?,
        metadata: metadata(&it.text()?)?,
        grant_id: GrantId(uuid(&it.text()?)?),
        token: token(&it.text()?)?,
        ttl: it.span()?,
        left: it.span()?,
        held: it.span()?,
    };
    Ok(Contention { current: Some(current), classic: None, waiters })
}

fn gone(it: &mut Details) -> Decoded<Gone> {
    let fate = match it.text()?.as_str() {
        "superseded" => Fate::Superseded,
        "unknown" => Fate::Unknown,
        text => Fate::Ended(end(text)?),
    };
    Ok(Gone { fate, successor: it.maybe()?.map(|text| token(&text)).transpose()? })
}

pub(super) fn holder(text: String) -> Decoded<Holder> {
    Holder::new(text).map_err(|_| corrupt("no holder"))
}

/// The metadata of a request as it is stored.
pub fn metadata_text(metadata: &Metadata) -> String {
    let pairs: Vec<_> = metadata.pairs().collect();
    serde_json::to_string(&pairs).unwrap_or_default()
}

pub(super) fn metadata(text: &str) -> Decoded<Metadata> {
    let pairs: Vec<(String, String)> = serde_json::from_str(text).map_err(|_| corrupt("no metadata"))?;
    Metadata::new(pairs).map_err(|_| corrupt("no metadata"))
}

fn effect(value: Value) -> Decoded<RedisEffect> {
    let texts: Vec<String> = array(value)?.into_iter().map(text).collect::<Decoded<_>>()?;
    effect_of(&texts.iter().map(String::as_str).collect::<Vec<_>>())
}

/// A message on a replica's channel: what a command of another replica set off here, and on which lock. Its last line is the name.
pub fn message(bytes: &[u8]) -> Decoded<(LockName, RedisEffect)> {
    let text = std::str::from_utf8(bytes).map_err(|_| StoreError::Corrupt("a message that is no text".into()))?;
    let mut lines: Vec<&str> = text.split('\n').collect();
    let name = lines.last().copied().unwrap_or_default().to_owned();
    if lines.first() != Some(&"event") {
        lines.pop();
    }
    let name = LockName::new(name).map_err(|_| StoreError::Corrupt("a message without a lock".into()))?;
    Ok((name, effect_of(&lines)?))
}

fn effect_of(texts: &[&str]) -> Decoded<RedisEffect> {
    Ok(match texts {
        ["look", replica, request, attempt] => {
            let attempt = u32::try_from(number(attempt)?).map_err(|_| corrupt("no attempt"))?;
            RedisEffect::LookAgain(ReplicaId(uuid(replica)?), RequestId(uuid(request)?), attempt)
        }
        ["granted", lease] => RedisEffect::Granted(LeaseId(uuid(lease)?)),
        ["ended", how, lease, _token, _grant, _holder, attachment, replica] => RedisEffect::Ended {
            end: end(how)?,
            lease_id: LeaseId(uuid(lease)?),
            attachment: if attachment.is_empty() {
                None
            } else {
                Some((AttachmentId(uuid(attachment)?), ReplicaId(uuid(replica)?)))
            },
        },
        ["detached", replica, lease, attachment] => {
            RedisEffect::Detached(ReplicaId(uuid(replica)?), LeaseId(uuid(lease)?), AttachmentId(uuid(attachment)?))
        }
        ["event", kind, token_text, grant, holder, reason, lock] => {
            let kind = match *kind {
                "G" => EventKind::Granted,
                "R" => EventKind::Released,
                "E" => EventKind::Expired,
                "V" => EventKind::Revoked((*reason).to_owned()),
                _ => return Err(corrupt("an unknown event")),
            };
            RedisEffect::Event(Box::new(Event {
                kind,
                name: LockName::new((*lock).to_owned()).map_err(|_| corrupt("no name"))?,
                holder: (*holder).to_owned(),
                grant_id: GrantId(uuid(grant)?),
                token: token(token_text)?,
            }))
        }
        ["returned"] => RedisEffect::ReplicaReturned,
        _ => return Err(corrupt("an unknown effect")),
    })
}
