//! One lock, kept twice: by the rules, and by the scripts on a real Redis.

use super::{
    classic::{Shown, real_time, rounded},
    op::{Op, Which},
    told::told,
};
use deadpool_redis::redis::{self, Connection, Value};
use fencepost::{
    domain::{
        command::{Acquire, Candidate, Command, Effects, Outcome},
        ids::{AttachmentId, Call, CallId, GrantId, Incarnation, LeaseId, ReplicaId, RequestId},
        lease::Terms,
        limits::COMMAND_WINDOW,
        name::{Holder, LockName, Metadata, Reason},
        outcome::ClassicHold,
        replicas::Replicas,
        rules::{Lock, Next, Turn},
        time::StoreTime,
        token::{FencingToken, Sequencer},
    },
    node::{Arg, replies},
    store::redis::{
        answer::Answer,
        command::{next_args, outcome_of, script_of},
        effects::RedisEffect,
        keys, scripts,
        sender::Sender,
    },
};
use std::{
    collections::HashMap,
    fmt::Debug,
    process::{Child, Stdio},
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

pub(crate) fn name() -> LockName {
    LockName::new("a:lock {with} *marks*".into()).unwrap()
}

impl Both {
    pub(crate) fn start(classic: Option<&str>) -> Self {
        let port = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        let redis = std::process::Command::new("redis-server")
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
            Op::ReleaseTo { which, request, attempt, id } => {
                let (lease, candidate) = (self.lease(which), self.candidate(request));
                let next = Next { call: call(request, attempt, id), candidate };
                let expected = self.turn(|turn| turn.release_to(lease, next));
                let args: Vec<_> = [Arg::from(lease.0)].into_iter().chain(next_args(next)).collect();
                return self.compare(op, expected, scripts::RELEASE, &args, |it| it.release().unwrap());
            }
            Op::Poll => {
                let expected = self.turn(|turn| vec![turn.poll()]);
                return self.compare(op, expected, scripts::POLL, &[], |answer| answer.polled().unwrap());
            }
            _ => return self.run(op),
        }
        Ok(())
    }

    /// Carries out an operation that is one command of the rules.
    fn run(&mut self, op: &Op) -> Result<(), String> {
        let command = self.command(op);
        let (script, args) = script_of(ReplicaId(id(self.replica)), &command);
        let (outcome, effects) = self.turn(|turn| turn.run(command.clone()));
        let read = |answer| match outcome_of(&command, answer).unwrap() {
            Outcome::Acquire(outcome) => rounded(outcome).into(),
            outcome => outcome,
        };
        self.compare(op, (outcome, effects), script, &args, read)
    }

    fn command(&mut self, op: &Op) -> Command {
        match *op {
            Op::Acquire { request, attempt, id, wait, odd } => {
                Command::Acquire(self.acquire(request, (attempt, id), wait, odd))
            }
            Op::Claim { request, attempt, id } => Command::Claim(call(request, attempt, id), self.candidate(request)),
            Op::GiveUp { request, attempt, id } => Command::GiveUp(call(request, attempt, id)),
            Op::Drop { request, attempt, id } => Command::DropCall(call(request, attempt, id)),
            Op::Decline { request, attempt } => Command::Decline { request: RequestId(id(request)), attempt },
            Op::Release(which) => Command::Release(self.lease(which)),
            Op::Renew(which, ttl) => {
                Command::Renew { lease_id: self.lease(which), ttl: (ttl > 0).then(|| Duration::from_secs(ttl)) }
            }
            Op::RenewKept(which, stream) => Command::RenewKept(self.lease(which), AttachmentId(id(stream))),
            Op::Attach(which, attempt, stream) => {
                Command::Attach { lease_id: self.lease(which), attempt, attachment: AttachmentId(id(stream)) }
            }
            Op::Detach(which, stream) => Command::Detach(self.lease(which), AttachmentId(id(stream))),
            Op::Disconnect(which, stream) => Command::Disconnect(self.lease(which), AttachmentId(id(stream))),
            Op::ForceRelease(right) => {
                let held = self.lock.lease().map(|lease| lease.token).filter(|_| right);
                let expected = held.unwrap_or(FencingToken::new(7).unwrap());
                Command::ForceRelease { expected, reason: Reason::new("because".into()).unwrap() }
            }
            _ => unreachable!("{op:?} is not a command of the rules"),
        }
    }

    fn acquire(&mut self, request: u128, (attempt, id): (u32, u64), wait: bool, odd: u8) -> Acquire {
        // Each request keeps its terms, but for the odd one that changes them.
        let fingerprint = u64::try_from(request).unwrap() + if odd == 2 { 100 } else { 0 };
        let terms = Terms {
            fingerprint,
            ttl: Duration::from_secs([1, 5, 20, 40][usize::try_from(request).unwrap() % 4]),
            holder: Holder::new(format!("holder {request}")).unwrap(),
            metadata: Metadata::new([("k\"é".to_owned(), request.to_string())]).unwrap(),
            min_token: if request == 3 { START + 90_000_000 } else { 0 },
        };
        Acquire { call: call(request, attempt, id), terms, wait, candidate: self.candidate(request) }
    }

    fn candidate(&mut self, request: u128) -> Candidate {
        self.made += 1;
        // Now and then it is attached from its grant on, to a stream that other commands know of.
        let attachment = self.made.is_multiple_of(3).then(|| AttachmentId(id(1 + self.made / 3 % 2)));
        let lease_id = LeaseId::of(RequestId(id(request)), u64::try_from(self.made).unwrap());
        Candidate { lease_id, grant_id: GrantId(id(9_000 + self.made)), attachment }
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
        call.key(keys::of_bucket(bucket)).arg(sender.packed(id(self.incarnation), self.not_after()));
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
