//! What the scripts answer, turned into the terms of the rules. The codes are named here once, beside `lua/`, which
//! speaks them.

use super::{
    effects::{RedisEffect, effect},
    packed::unpack,
    quick::{self, Quick},
    scripts::QUICK,
};
use crate::{
    domain::{
        ids::{GrantId, LeaseId, RequestId},
        lease::LeaseEnd,
        name::{Holder, Metadata},
        outcome::{
            AcquireOutcome, ClassicHold, Contention, Fate, Gone, Grant, HolderView, LockView, Polled, ReleaseOutcome,
            RenewOutcome, Renewed, RevokeOutcome,
        },
        time::StoreTime,
        token::FencingToken,
    },
    node::{Value, script_error},
    store::StoreError,
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
    said: Said,
}

/// What a command came to.
#[derive(Debug)]
enum Said {
    /// By the rules: a code, and what belongs to it.
    Code(String, Details),
    /// By a quick path.
    Quick(Quick),
}

/// The details of an answer, taken one by one.
#[derive(Debug)]
pub(super) struct Details(std::vec::IntoIter<Value>);

pub(super) type Decoded<T> = Result<T, StoreError>;

pub(super) fn corrupt(what: &str) -> StoreError {
    StoreError::Corrupt(format!("{what} in the answer of a script"))
}

pub(super) fn array(value: Value) -> Decoded<Vec<Value>> {
    match value {
        Value::Array(values) => Ok(values),
        other => Err(corrupt(&format!("no list but {other:?}"))),
    }
}

pub(super) fn text(value: Value) -> Decoded<String> {
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
    pub(super) fn of(values: Vec<Value>) -> Self {
        Self(values.into_iter())
    }

    pub(super) fn text(&mut self) -> Decoded<String> {
        text(self.0.next().ok_or_else(|| corrupt("too little"))?)
    }

    /// An id, or an empty text where there is none.
    pub(super) fn maybe_id(&mut self) -> Decoded<Option<Uuid>> {
        match self.0.next() {
            Some(Value::BulkString(bytes)) if bytes.is_empty() => Ok(None),
            Some(Value::BulkString(bytes)) => Uuid::from_slice(&bytes).map(Some).map_err(|_| corrupt("no id")),
            _ => Err(corrupt("no id")),
        }
    }

    pub(super) fn id(&mut self) -> Decoded<Uuid> {
        self.maybe_id()?.ok_or_else(|| corrupt("no id"))
    }

    fn maybe(&mut self) -> Decoded<Option<String>> {
        Ok(Some(self.text()?).filter(|text| !text.is_empty()))
    }

    fn span(&mut self) -> Decoded<Duration> {
        Ok(Duration::from_micros(number(&self.text()?)?))
    }

    fn list(&mut self) -> Decoded<Self> {
        Ok(Self::of(array(self.0.next().ok_or_else(|| corrupt("too little"))?)?))
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
    /// Reads the answer to one command: its code, details, effects. One that failed by itself is the error that Redis
    /// would have said.
    pub fn read(now: StoreTime, packed: &[u8]) -> Decoded<Self> {
        if let Some((&QUICK, rest)) = packed.split_first() {
            let (quick, effects) = quick::read(rest).ok_or_else(|| corrupt("bytes that make no sense"))?;
            return Ok(Self { now, effects, said: Said::Quick(quick) });
        }
        let mut frame = Details(unpack(packed).ok_or_else(|| corrupt("bytes that make no sense"))?.into_iter());
        let code = frame.text()?;
        let mut next = || frame.0.next().ok_or_else(|| corrupt("too little"));
        let mut details = Details(array(next()?)?.into_iter());
        let effects = array(next()?)?.into_iter().map(effect).collect::<Decoded<_>>()?;
        if code == "broken" {
            return Err(script_error(&details.text()?).into());
        }
        Ok(Self { now, effects, said: Said::Code(code, details) })
    }

    fn is(&self, code: &str) -> bool {
        matches!(&self.said, Said::Code(said, _) if said == code)
    }

    /// Whether the command came too late to act.
    pub(super) fn is_too_late(&self) -> bool {
        self.is("too_late")
    }

    /// As the answer of meta: the command that the user of Redis may not run on the keys of classic locks.
    pub(super) fn denied(&mut self) -> Decoded<Option<String>> {
        match &mut self.said {
            Said::Code(code, details) if code == "denied" => details.text().map(Some),
            _ => Ok(None),
        }
    }

    /// Whether it was meant for a life of Redis that is over.
    pub(super) fn is_left_behind(&self) -> bool {
        self.is("left_behind")
    }

    /// As the answer of watch: whether events have been told until now.
    pub(super) fn goes_on(self) -> Decoded<bool> {
        match self.coded()?.0.as_str() {
            "goes_on" => Ok(true),
            "begins" => Ok(false),
            other => Err(unknown_code(other)),
        }
    }

    /// The code and what belongs to it.
    fn coded(self) -> Decoded<(String, Details)> {
        match self.said {
            Said::Code(code, details) => Ok((code, details)),
            Said::Quick(quick) => Err(corrupt(&format!("the answer {quick:?} to something else"))),
        }
    }

    /// What belongs to this code, which is the only one that the command may have.
    fn only(self, wanted: &str) -> Decoded<Details> {
        let (code, details) = self.coded()?;
        if code == wanted { Ok(details) } else { Err(unknown_code(&code)) }
    }

    /// As the answer of acquire, claim and give_up.
    pub fn acquire(self) -> Decoded<AcquireOutcome> {
        match self.said {
            Said::Quick(Quick::Granted(grant)) => return Ok(AcquireOutcome::Granted(grant)),
            Said::Quick(Quick::Queued { .. }) => return Ok(AcquireOutcome::Queued),
            _ => {}
        }
        let now = self.now;
        let (code, details) = self.coded()?;
        Self::acquired(now, &code, details)
    }

    fn acquired(now: StoreTime, code: &str, mut details: Details) -> Decoded<AcquireOutcome> {
        let it = &mut details;
        Ok(match code {
            "granted" => AcquireOutcome::Granted(Grant {
                lease_id: LeaseId(it.id()?),
                grant_id: GrantId(it.id()?),
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
            "too_late" => AcquireOutcome::TooLate(now),
            "left_behind" => AcquireOutcome::LeftBehind,
            "exhausted" => AcquireOutcome::TokensExhausted,
            _ => return Err(unknown_code(code)),
        })
    }

    /// Of an answer that a request is queued: its place, and the first one in line.
    pub(super) fn queued_at(&mut self) -> Decoded<Option<(u64, u64)>> {
        let details = match &mut self.said {
            Said::Code(code, details) if code == "queued" => details,
            Said::Quick(Quick::Queued { place, first }) => return Ok(Some((*place, *first))),
            _ => return Ok(None),
        };
        let place = number(&details.text()?)?;
        let first = details.maybe()?.map_or(Ok(place), |text| number(&text))?;
        Ok(Some((place, first)))
    }

    /// As the answer of release, and of the claim that came with it, if that was carried out.
    pub fn release(self) -> Decoded<(ReleaseOutcome, Option<AcquireOutcome>)> {
        match self.said {
            Said::Quick(Quick::Released) => return Ok((ReleaseOutcome::Released, None)),
            Said::Quick(Quick::HandedOver(grant)) => {
                return Ok((ReleaseOutcome::Released, Some(AcquireOutcome::Granted(grant))));
            }
            _ => {}
        }
        let now = self.now;
        let (code, mut details) = self.coded()?;
        match code.as_str() {
            "released" => Ok((ReleaseOutcome::Released, None)),
            "handed_over" => {
                let (code, claimed) = (details.text()?, details.list()?);
                Ok((ReleaseOutcome::Released, Some(Self::acquired(now, &code, claimed)?)))
            }
            "gone" => Ok((ReleaseOutcome::Gone(gone(&mut details)?), None)),
            _ => Err(unknown_code(&code)),
        }
    }

    /// As the answer of renew and attach.
    pub fn renew(self) -> Decoded<RenewOutcome> {
        if let Said::Quick(Quick::Renewed(renewed)) = self.said {
            return Ok(RenewOutcome::Renewed(renewed));
        }
        let (code, mut details) = self.coded()?;
        let it = &mut details;
        match code.as_str() {
            "renewed" => {
                let token = token(&it.text()?)?;
                Ok(RenewOutcome::Renewed(Renewed { token, ttl: it.span()?, left: it.span()? }))
            }
            "gone" => Ok(RenewOutcome::Lost(gone(it)?)),
            "attached_elsewhere" => Ok(RenewOutcome::AttachedElsewhere),
            _ => Err(unknown_code(&code)),
        }
    }

    /// As the answer of force_release.
    pub fn revoke(self) -> Decoded<RevokeOutcome> {
        let (code, mut details) = self.coded()?;
        match code.as_str() {
            "revoked" => Ok(RevokeOutcome::Revoked(holder(details.text()?)?)),
            "not_held" => Ok(RevokeOutcome::NotHeld),
            "token_mismatch" => Ok(RevokeOutcome::TokenMismatch(token(&details.text()?)?)),
            _ => Err(unknown_code(&code)),
        }
    }

    /// As the answer of drop_call, decline, detach and disconnect.
    pub fn done(self) -> Decoded<()> {
        self.only("done").map(drop)
    }

    /// As the answer of poll, lock by lock.
    pub fn polled(self) -> Decoded<Vec<Polled>> {
        let each = |value: Value| {
            let mut it = Details(array(value)?.into_iter());
            let (request, attempt, waiters) =
                (it.maybe_id()?.map(RequestId), number(&it.text()?)?, number(&it.text()?)?);
            let first_place = it.maybe()?.map(|text| number(&text)).transpose()?;
            let attempt = u32::try_from(attempt).map_err(|_| corrupt("no attempt"))?;
            let waiters = usize::try_from(waiters).map_err(|_| corrupt("no count"))?;
            Ok(Polled { offered: request.map(|request| (request, attempt)), waiters, first_place })
        };
        self.only("polled")?.0.map(each).collect()
    }

    /// As the answer of meta and list: plain texts.
    pub fn texts(self, code: &str) -> Decoded<Vec<String>> {
        self.only(code)?.0.map(text).collect()
    }

    /// As the answer of view.
    pub fn view(self) -> Decoded<LockView> {
        let now = self.now;
        let mut details = self.only("seen")?;
        let fields = array(details.0.next().ok_or_else(|| corrupt("too little"))?)?;
        let mut texts = fields.into_iter().map(text);
        let mut lock = HashMap::new();
        while let (Some(field), Some(value)) = (texts.next(), texts.next()) {
            lock.insert(field?, value?);
        }
        let waiters = usize::try_from(number(&details.text()?)?).map_err(|_| corrupt("no count"))?;
        let mut view = super::view::view(&lock, waiters, now)?;
        view.classic = details.classic()?;
        // A lease beside it is over, whether or not a command came by that said so.
        view.current = view.current.filter(|_| view.classic.is_none());
        Ok(view)
    }
}

fn unknown_code(code: &str) -> StoreError {
    corrupt(&format!("the code {code:?}"))
}

fn contention(it: &mut Details) -> Decoded<Contention> {
    let waiters = usize::try_from(number(&it.text()?)?).map_err(|_| corrupt("no count"))?;
    if it.left() < 2 {
        return Ok(Contention { current: None, classic: it.classic()?, waiters });
    }
    let current = HolderView {
        holder: holder(it.text()?)?,
        metadata: metadata(&it.text()?)?,
        grant_id: GrantId(it.id()?),
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
