//! One lock, kept twice: by the rules, and by the scripts on a real Redis.

use super::{
    classic::{Shown, real_time, rounded},
    op::{Op, Which},
    told::told,
};
use deadpool_redis::redis::{self, Connection, Value};
use fencepost::{
    domain::{
        ids::{AttachmentId, Call, CallId, GrantId, Incarnation, LeaseId, ReplicaId, RequestId},
        lease::Terms,
        limits::COMMAND_WINDOW,
        name::{Holder, LockName, Metadata},
        outcome::{ClassicHold, Effects},
        replicas::Replicas,
        rules::{Acquire, Candidate, Lock, Next, Turn},
        time::{StoreTime, micros},
        token::{FencingToken, Sequencer},
    },
    store::redis::{
        answer::Answer,
        effects::RedisEffect,
        keys, lease,
        links::{Arg, Sender, head, replies},
        scripts,
    },
};
use std::{
    collections::HashMap,
    fmt::Debug,
    process::{Child, Command, Stdio},
    time::{Duration, Instant},
};
use uuid::Uuid;

const START: u64 = 1_800_000_000_000_000;
const WAITERS_MAX: usize = 3;
pub(crate) const CLASSIC: &str = "it's a lock:";
/// More than any sequence takes: Redis' own clock is not the test's.
pub(crate) const CLASSIC_TTL_MS: u64 = 3_600_000;
/// Reads the time and the life that the test wrote.
const PRESENT: &str = "local now = tonumber(redis.call('GET', 'test:now')) \
                       local function is_in(life) return redis.call('GET', 'test:life') == life end\n";

pub(crate) struct Both {
    redis: Child,
    pub(crate) connection: Connection,
    scripts: HashMap<&'static str, redis::Script>,
    pub(crate) lock: Lock,
    sequencer: Sequencer,
    replicas: Replicas,
    pub(crate) now: StoreTime,
    replica: u128,
    incarnation: u128,
    present: u128,
    pub(crate) classic: Option<ClassicHold>,
    /// What was due when the classic key went by itself.
    pub(crate) gone: Option<(Option<GrantId>, StoreTime)>,
    /// Whether there may be classic clients.
    sharing: bool,
    pub(crate) shown: Option<Shown>,
    /// When the last command was sent, by a real clock.
    pub(crate) sent: Instant,
    late: u64,
    known_token: u64,
    leases: Vec<LeaseId>,
    made: u128,
    pub(crate) commands: usize,
}

impl Drop for Both {
    fn drop(&mut self) {
        let _ = self.redis.kill();
        let _ = self.redis.wait();
    }
}

fn call(request: u128, attempt: u32, id: u64) -> Call {
    Call { request: RequestId(self::id(request)), attempt, id: CallId(id) }
}

fn id(number: u128) -> Uuid {
    Uuid::from_u128(number)
}

fn ids(candidate: Candidate) -> [Arg; 3] {
    let stream = candidate.attachment.map_or(Arg::from(""), |attachment| Arg::from(attachment.0));
    [Arg::from(candidate.lease_id.0), Arg::from(candidate.grant_id.0), stream]
}

pub(crate) fn name() -> LockName {
    LockName::new("a:lock {with} *marks*".into()).unwrap()
}

impl Both {
    pub(crate) fn start(classic: Option<&str>) -> Self {
        let port = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        let redis = Command::new("redis-server")
            .args(["--port", &port.to_string(), "--bind", "127.0.0.1", "--save", "", "--appendonly", "no"])
            .stdout(Stdio::null())
            .spawn()
            .expect("redis-server is installed");
        let client = redis::Client::open(format!("redis://127.0.0.1:{port}")).unwrap();
        let connection = loop {
            match client.get_connection() {
                Ok(connection) => break connection,
                Err(_) => std::thread::sleep(Duration::from_millis(10)),
            }
        };
        let commands = [
            scripts::ACQUIRE,
            scripts::CLAIM,
            scripts::GIVE_UP,
            scripts::DROP_CALL,
            scripts::DECLINE,
            scripts::RELEASE,
            scripts::RENEW,
            scripts::RENEW_KEPT,
            scripts::ATTACH,
            scripts::DETACH,
            scripts::DISCONNECT,
            scripts::FORCE_RELEASE,
            scripts::POLL,
            scripts::VIEW,
        ];
        let scripts = commands
            .map(scripts::flags)
            .map(|flags| (flags, redis::Script::new(&scripts::source(flags, PRESENT, classic))));
        Self {
            redis,
            connection,
            scripts: scripts.into(),
            lock: Lock::default(),
            sequencer: Sequencer::forgotten(),
            replicas: Replicas::many(),
            now: StoreTime::from_micros(START),
            replica: 1,
            incarnation: 1,
            present: 1,
            classic: None,
            sharing: classic.is_some(),
            shown: None,
            sent: real_time(),
            gone: None,
            late: 0,
            known_token: 0,
            leases: Vec::new(),
            made: 0,
            commands: 0,
        }
    }

    /// Begins anew, with nothing known to either.
    pub(crate) fn forget(&mut self) {
        redis::cmd("FLUSHALL").exec(&mut self.connection).unwrap();
        self.lock = Lock::default();
        self.sequencer = Sequencer::forgotten();
        self.replicas = Replicas::many();
        self.now = StoreTime::from_micros(START);
        (self.replica, self.incarnation, self.present, self.made) = (1, 1, 1, 0);
        (self.classic, self.shown, self.gone) = (None, None, None);
        (self.late, self.known_token) = (0, 0);
        self.leases.clear();
    }

    /// Carries out a command twice and compares.
    pub(crate) fn step(&mut self, op: &Op) -> Result<(), String> {
        self.commands += 1;
        match *op {
            Op::Pass(span) => self.now = self.now.after(Duration::from_micros(span)),
            Op::StepBack(span) => self.now = StoreTime::from_micros(self.now.as_micros() - span),
            Op::FromReplica(replica) => self.replica = replica,
            Op::Present(life) => self.present = life,
            Op::Incarnation(life) => self.incarnation = life,
            Op::ClassicTake(ends) => return self.classic_take(ends),
            Op::ClassicGive => self.classic_give(),
            Op::Late(late) => self.late = late,
            Op::Known(ahead) => self.known_token = self.now.as_micros() + ahead,
            Op::Acquire { request, attempt, id, wait, odd } => return self.acquire(request, (attempt, id), wait, odd),
            Op::Claim { request, attempt, id } => {
                let (request, candidate) = self.wished(request);
                let call = Call { request, attempt, id: CallId(id) };
                let expected = self.turn(|turn| turn.claim(call, candidate));
                let args: Vec<_> = lease::call_args(call).into_iter().chain(ids(candidate)).collect();
                return self.compare(op, expected, scripts::CLAIM, &args, |answer| rounded(answer.acquire().unwrap()));
            }
            Op::GiveUp { request, attempt, id } => {
                let call = call(request, attempt, id);
                let expected = self.turn(|turn| turn.give_up(call));
                let args = lease::call_args(call);
                return self
                    .compare(op, expected, scripts::GIVE_UP, &args, |answer| rounded(answer.acquire().unwrap()));
            }
            Op::Drop { request, attempt, id } => {
                let call = call(request, attempt, id);
                let expected = self.turn(|turn| turn.drop_call(call));
                let args = lease::call_args(call);
                return self.compare(op, expected, scripts::DROP_CALL, &args, |answer| answer.done().unwrap());
            }
            Op::Decline { request, attempt } => {
                let request = RequestId(id(request));
                let expected = self.turn(|turn| turn.decline_offer(request, attempt));
                let args = [Arg::from(request.0), Arg::from(attempt)];
                return self.compare(op, expected, scripts::DECLINE, &args, |answer| answer.done().unwrap());
            }
            Op::Release(which) => {
                let lease = self.lease(which);
                let expected = self.turn(|turn| (turn.release(lease), None));
                return self.compare(op, expected, scripts::RELEASE, &[Arg::from(lease.0)], |it| it.release().unwrap());
            }
            Op::ReleaseTo { which, request, attempt, id } => {
                let (lease, (request, candidate)) = (self.lease(which), self.wished(request));
                let call = Call { request, attempt, id: CallId(id) };
                let expected = self.turn(|turn| turn.release_to(lease, Next { call, candidate }));
                let args: Vec<_> =
                    [Arg::from(lease.0)].into_iter().chain(lease::call_args(call)).chain(ids(candidate)).collect();
                return self.compare(op, expected, scripts::RELEASE, &args, |it| it.release().unwrap());
            }
            Op::Renew(which, ttl) => {
                let lease = self.lease(which);
                let span = (ttl > 0).then(|| Duration::from_secs(ttl));
                let expected = self.turn(|turn| turn.renew(lease, span, None));
                let ttl = span.map(|span| Arg::from(micros(span)));
                let args: Vec<_> = [Arg::from(lease.0)].into_iter().chain(ttl).collect();
                return self.compare(op, expected, scripts::RENEW, &args, |answer| answer.renew().unwrap());
            }
            Op::RenewKept(which, stream) => {
                let lease = self.lease(which);
                let expected = self.turn(|turn| turn.renew(lease, None, Some(AttachmentId(id(stream)))));
                let args = [Arg::from(lease.0), Arg::from(id(stream))];
                return self.compare(op, expected, scripts::RENEW_KEPT, &args, |answer| answer.renew().unwrap());
            }
            Op::Attach(which, attempt, stream) => {
                let lease = self.lease(which);
                let expected = self.turn(|turn| turn.attach(lease, attempt, AttachmentId(id(stream))));
                let args = [Arg::from(lease.0), Arg::from(attempt), Arg::from(id(stream))];
                return self.compare(op, expected, scripts::ATTACH, &args, |answer| answer.renew().unwrap());
            }
            Op::Detach(which, stream) => {
                let lease = self.lease(which);
                let expected = self.turn(|turn| turn.detach(lease, AttachmentId(id(stream))));
                let args = [Arg::from(lease.0), Arg::from(id(stream))];
                return self.compare(op, expected, scripts::DETACH, &args, |answer| answer.done().unwrap());
            }
            Op::Disconnect(which, stream) => {
                let lease = self.lease(which);
                let expected = self.turn(|turn| turn.disconnect(lease, AttachmentId(id(stream))));
                let args = [Arg::from(lease.0), Arg::from(id(stream))];
                return self.compare(op, expected, scripts::DISCONNECT, &args, |answer| answer.done().unwrap());
            }
            Op::ForceRelease(right) => {
                let held = self.lock.lease().map(|lease| lease.token).filter(|_| right);
                let token = held.unwrap_or(FencingToken::new(7).unwrap());
                let expected = self.turn(|turn| turn.force_release(token));
                let args = [Arg::from(token.get()), Arg::from("because")];
                return self.compare(op, expected, scripts::FORCE_RELEASE, &args, |it| it.revoke().unwrap());
            }
            Op::Poll => {
                let expected = self.turn(|turn| vec![turn.poll()]);
                return self.compare(op, expected, scripts::POLL, &[], |answer| answer.polled().unwrap());
            }
        }
        Ok(())
    }

    fn acquire(&mut self, request: u128, (attempt, call_id): (u32, u64), wait: bool, odd: u8) -> Result<(), String> {
        // Each request keeps its terms, but for the odd one that changes them.
        let fingerprint = u64::try_from(request).unwrap() + if odd == 2 { 100 } else { 0 };
        let terms = Terms {
            fingerprint,
            ttl: Duration::from_secs([1, 5, 20, 40][usize::try_from(request).unwrap() % 4]),
            holder: Holder::new(format!("holder {request}")).unwrap(),
            metadata: Metadata::new([("k\"é".to_owned(), request.to_string())]).unwrap(),
            min_token: if request == 3 { START + 90_000_000 } else { 0 },
        };
        let (request, candidate) = self.wished(request);
        let call = Call { request, attempt, id: CallId(call_id) };
        let args = [
            Arg::from(wait),
            Arg::from(micros(terms.ttl)),
            Arg::from(terms.min_token),
            Arg::from(scripts::kept_for(terms.ttl)),
            lease::packed(ReplicaId(id(self.replica)), call, &terms, candidate),
        ];
        let command = Acquire { call, terms, wait, candidate };
        let expected = self.turn(|turn| turn.acquire(command));
        let what = format!("acquire {call:?} wait {wait} odd {odd}");
        self.compare(&what, expected, scripts::ACQUIRE, &args, |answer| rounded(answer.acquire().unwrap()))
    }

    fn wished(&mut self, request: u128) -> (RequestId, Candidate) {
        let request = RequestId(id(request));
        self.made += 1;
        // Now and then it is attached from its grant on, to a stream that other commands know of.
        let attachment = self.made.is_multiple_of(3).then(|| AttachmentId(id(1 + self.made / 3 % 2)));
        let lease_id = LeaseId::of(request, u64::try_from(self.made).unwrap());
        (request, Candidate { lease_id, grant_id: GrantId(id(9_000 + self.made)), attachment })
    }

    fn lease(&self, which: Which) -> LeaseId {
        let before = |number| self.leases.iter().rev().nth(number).copied();
        let found = match which {
            Which::Current => self.lock.lease().map(|lease| lease.lease_id),
            Which::Last => before(1),
            Which::Earlier => before(3),
            Which::Sibling => before(3).map(|it| LeaseId(Uuid::from_u128(it.0.as_u128() ^ 1))),
            Which::Stranger => None,
        };
        found.unwrap_or(LeaseId(id(77)))
    }

    fn not_after(&self) -> StoreTime {
        StoreTime::from_micros(self.now.after(COMMAND_WINDOW).as_micros() - self.late)
    }

    fn turn<T>(&mut self, act: impl FnOnce(&mut Turn<'_>) -> T) -> (T, Vec<RedisEffect>) {
        let mut effects = Effects::new();
        let not_after = self.not_after();
        let outcome = act(&mut Turn {
            lock: &mut self.lock,
            sequencer: &mut self.sequencer,
            effects: &mut effects,
            now: self.now,
            not_after,
            incarnation: Incarnation(id(self.incarnation)),
            present: Incarnation(id(self.present)),
            replica: ReplicaId(id(self.replica)),
            replicas: &mut self.replicas,
            known_token: self.known_token,
            waiters_max: WAITERS_MAX,
            classic: self.classic,
        });
        self.lock.check();
        if let Some(lease) = self.lock.lease().map(|lease| lease.lease_id).filter(|it| self.leases.last() != Some(it)) {
            self.leases.push(lease);
        }
        let granted = self.leases.last().copied();
        let effects = effects.iter().map(|effect| told(effect, granted)).collect();
        (outcome, effects)
    }

    fn compare<T: Debug + PartialEq>(
        &mut self,
        op: &dyn Debug,
        (expected, effects): (T, Vec<RedisEffect>),
        asked: &'static str,
        args: &[Arg],
        read: impl FnOnce(Answer) -> T,
    ) -> Result<(), String> {
        let present = id(self.present).simple().to_string();
        let present = ("test:now", self.now.as_micros(), "test:life", present);
        redis::cmd("MSET").arg(present).exec(&mut self.connection).unwrap();
        self.sent = real_time();
        let bucket = keys::bucket(&name());
        let sender = Sender { replica: ReplicaId(id(self.replica)), waiters_max: WAITERS_MAX };
        let mut command = Vec::new();
        let first = [asked, &keys::base(bucket)].map(Arg::from);
        for arg in first.iter().chain(&[Arg::from(self.known_token), Arg::from(name().as_str())]).chain(args) {
            arg.pack(&mut command);
        }
        let mut call = self.scripts[scripts::flags(asked)].prepare_invoke();
        call.key(keys::of_bucket(bucket)).arg(head(sender, id(self.incarnation), self.not_after()));
        // Every other time something goes before it in the same script, as of other clients: on another lock, of
        // another kind.
        let before = self.commands.is_multiple_of(2).then(|| elsewhere(asked, bucket)).flatten();
        call.arg(&before).arg(command);
        let value: Value = call.invoke(&mut self.connection).map_err(|error| format!("{op:?}: {error}"))?;
        let (now, mut answers) = replies(value, 1 + before.iter().len()).map_err(|error| format!("{op:?}: {error}"))?;
        let answer = answers.pop().ok_or("no answer")?;
        let answer = Answer::read(now, &answer).map_err(|error| format!("{op:?}: {error}"))?;
        if self.sharing {
            self.check_classic_key()?;
        }
        if answer.now != self.now {
            return Err(format!("{op:?}: went by {:?}", answer.now));
        }
        let (found, told) = (answer.effects.clone(), read(answer));
        if told != expected {
            return Err(format!("{op:?}: the rules say {expected:?}, the script {told:?}"));
        }
        if found != effects {
            return Err(format!("{op:?}: the rules set off {effects:?}, the script {found:?}"));
        }
        Ok(())
    }
}

/// A command that changes nothing, for which the same script has a quick path.
fn elsewhere(asked: &str, bucket: u16) -> Option<Vec<u8>> {
    if scripts::flags(asked) != scripts::flags(scripts::RELEASE) {
        return None;
    }
    let other = if asked == scripts::RELEASE { scripts::RENEW } else { scripts::RELEASE };
    let mut command = Vec::new();
    for arg in [Arg::from(other), keys::base(bucket).into(), 0_u64.into(), "another lock".into(), id(77).into()] {
        arg.pack(&mut command);
    }
    Some(command)
}
