//! A check that is followed, from its request to its answer: what is noted on the way is little, and becomes spans
//! where they are sent. It is told when it is dropped, however it ended.

use super::context::{self, Parent, SpanId, TRACEPARENT, TRACESTATE, TraceId, traceparent};
use super::queue::Told;
use super::span::{Kind, Span, Status, Value};
use super::tracer::{Keeper, OnLimit, Tracer, within};
use hivemind_core::{Clock, SystemClock, Timestamp};
use http::{HeaderMap, Method};
use std::sync::Arc;

/// More keys of descriptors, and longer ones, are not told.
const MOST_KEYS: usize = 32;
const LONGEST_KEY: usize = 64;
/// What stands for a name that may be anybody's.
const OTHER: &str = "other";

/// Where a request came in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Door {
    Grpc,
    Json,
    Gateway,
}

/// How far a check has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stage {
    /// The rules are read: which limits there are, and by which counters.
    Reads,
    /// The counters are asked, and record what they decide.
    Writes,
    /// Whoever keeps them has to be waited for.
    Waits,
    /// They have decided.
    Written,
    /// Somebody else has decided in their place.
    FellBack,
}

/// What was decided, without anything that is a client's.
#[derive(Clone, Debug, Default)]
pub(crate) struct Decided {
    pub(crate) domain: Box<str>,
    pub(crate) keys: Vec<Box<str>>,
    /// None: nobody could decide it, or nothing is limited.
    pub(crate) is_limited: Option<bool>,
    pub(crate) hits: u64,
    pub(crate) remaining: Option<u64>,
    /// In seconds.
    pub(crate) retry_after: Option<u64>,
    /// What is limited, as the gateway tells it apart.
    pub(crate) kind: Option<&'static str>,
}

impl Decided {
    /// A name as it may be told: that of rules is theirs; of what anybody may write, what looks like a name.
    pub(crate) fn key(text: &str) -> Box<str> {
        let is_name = |byte: u8| byte.is_ascii_alphanumeric() || b"_-.:/".contains(&byte);
        let sound = !text.is_empty() && text.len() <= LONGEST_KEY && text.bytes().all(is_name);
        if sound { text.into() } else { OTHER.into() }
    }

    /// The keys of descriptors, each once.
    pub(crate) fn keys<'k>(all: impl Iterator<Item = &'k str>) -> Vec<Box<str>> {
        let mut keys: Vec<Box<str>> = Vec::new();
        for key in all.map(Self::key) {
            if keys.len() < MOST_KEYS && !keys.contains(&key) {
                keys.push(key);
            }
        }
        keys
    }

    /// A domain that has rules; any other may be anybody's.
    pub(crate) fn domain(name: &str, has_rules: bool) -> Box<str> {
        if has_rules { name.into() } else { OTHER.into() }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Answered {
    Grpc(i32),
    Http(u16),
}

/// What is noted of a check.
#[derive(Debug)]
pub(super) struct Record {
    trace: TraceId,
    id: SpanId,
    parent: Option<SpanId>,
    state: Option<Box<str>>,
    door: Door,
    /// Of HTTP.
    method: Option<&'static str>,
    began: Timestamp,
    reads: Option<Timestamp>,
    writes: Option<Timestamp>,
    waits: bool,
    written: Option<Timestamp>,
    fell_back: bool,
    decided: Option<Decided>,
    answered: Option<Answered>,
    ended: Timestamp,
}

/// A check that is followed.
#[derive(Debug)]
pub(crate) struct Check {
    tracer: Arc<Tracer>,
    /// None once it is told.
    record: Option<Box<Record>>,
}

impl Check {
    #[cold]
    pub(super) fn begin(
        tracer: &Arc<Tracer>,
        trace: TraceId,
        parent: Option<&Parent>,
        headers: &HeaderMap,
        door: Door,
    ) -> Self {
        let began = SystemClock.now();
        let record = Record {
            trace,
            id: SpanId::random(),
            parent: parent.map(|parent| parent.span),
            // Without a parent it is nobody's.
            state: parent.and_then(|_| context::state(headers)),
            door,
            method: None,
            began,
            reads: None,
            writes: None,
            waits: false,
            written: None,
            fell_back: false,
            decided: None,
            answered: None,
            ended: began,
        };
        Self { tracer: Arc::clone(tracer), record: Some(Box::new(record)) }
    }

    fn note(&mut self, change: impl FnOnce(&mut Record)) {
        if let Some(record) = &mut self.record {
            change(record);
        }
    }

    /// It has come so far now. What is decided anew begins anew.
    pub(crate) fn comes_to(&mut self, stage: Stage) {
        self.note(|record| match stage {
            Stage::Reads => {
                record.reads = Some(SystemClock.now());
                (record.writes, record.written) = (None, None);
                (record.waits, record.fell_back) = (false, false);
            }
            Stage::Writes => record.writes = Some(SystemClock.now()),
            Stage::Waits => record.waits = true,
            Stage::Written | Stage::FellBack => {
                record.written = Some(SystemClock.now());
                record.fell_back = stage == Stage::FellBack;
            }
        });
    }

    /// It asks by this method.
    pub(crate) fn asks_by(&mut self, method: &Method) {
        self.note(|record| record.method = Some(known(method)));
    }

    pub(crate) fn is_decided(&mut self, decided: Decided) {
        self.note(|record| record.decided = Some(decided));
    }

    /// It is answered by a call's status.
    pub(crate) fn is_answered(&mut self, code: tonic::Code) {
        self.note(|record| record.answered = Some(Answered::Grpc(code.into())));
    }

    /// It is answered over HTTP.
    pub(crate) fn is_answered_with(&mut self, status: http::StatusCode) {
        self.note(|record| record.answered = Some(Answered::Http(status.as_u16())));
    }

    /// Tells whoever is asked next that this is its parent.
    pub(crate) fn tell(&self, headers: &mut HeaderMap) {
        let Some(record) = &self.record else { return };
        let Some(own) = traceparent(record.trace, record.id) else { return };
        headers.insert(TRACEPARENT, own);
        if record.parent.is_none() {
            headers.remove(TRACESTATE);
        }
    }
}

impl Drop for Check {
    fn drop(&mut self) {
        if let Some(mut record) = self.record.take() {
            record.ended = SystemClock.now();
            self.tracer.queue.push(Told::Check(record));
        }
    }
}

impl Record {
    /// The check, and what it was made of.
    pub(super) fn into_spans(self, keeper: Keeper, on_limit: OnLimit, spans: &mut Vec<Span>) {
        let of = (self.trace, self.id);
        if let Some(reads) = self.reads {
            spans.push(within(of, "ratelimit.state.read", reads, self.writes.unwrap_or(self.ended)));
        }
        if let Some(writes) = self.writes {
            let ended = self.written.unwrap_or(self.ended);
            let mut span = within(of, "ratelimit.state.write", writes, ended);
            span.attributes.push(("hivemind.store", Value::Text(keeper.name().into())));
            if self.fell_back {
                span.attributes.push(("hivemind.fallback", Value::Flag(true)));
            }
            if self.waits && keeper == Keeper::Mesh {
                spans.push(within((self.trace, span.id), "ratelimit.mesh.ask", writes, ended));
            }
            spans.push(span);
        }
        let (attributes, status) = (self.attributes(), self.status(on_limit));
        spans.push(Span {
            trace: self.trace,
            id: self.id,
            parent: self.parent,
            is_remote: self.parent.is_some(),
            state: self.state,
            name: "ratelimit.check",
            kind: Kind::Server,
            began: self.began,
            // The wall clock may have been set meanwhile.
            ended: self.ended.max(self.began),
            attributes,
            status,
        });
    }

    fn attributes(&self) -> Vec<(&'static str, Value)> {
        let text = |text: &'static str| Value::Text(text.into());
        let mut all = match self.door {
            Door::Grpc => vec![("rpc.system", text("grpc")), ("rpc.method", text("ShouldRateLimit"))],
            Door::Json => vec![("http.route", text("/json"))],
            Door::Gateway => Vec::new(),
        };
        all.extend(self.method.map(|method| ("http.request.method", text(method))));
        match self.answered {
            Some(Answered::Grpc(code)) => {
                all.push(("rpc.grpc.status_code", Value::Number(code.into())));
            }
            Some(Answered::Http(status)) => {
                all.push(("http.response.status_code", Value::Number(status.into())));
            }
            None => {}
        }
        let Some(decided) = &self.decided else { return all };
        all.push(("domain", Value::Text(decided.domain.to_string().into())));
        if !decided.keys.is_empty() {
            all.push(("descriptor_keys", Value::List(decided.keys.clone())));
        }
        let code = decided.is_limited.map_or("UNKNOWN", |limited| if limited { "OVER_LIMIT" } else { "OK" });
        all.push(("response_code", text(code)));
        all.push(("hit_count", Value::count(decided.hits)));
        all.extend(decided.is_limited.map(|limited| ("hivemind.rate_limit.limited", Value::Flag(limited))));
        all.extend(decided.remaining.map(|left| ("hivemind.rate_limit.remaining", Value::count(left))));
        all.extend(decided.kind.map(|kind| ("hivemind.rate_limit.type", text(kind))));
        all.extend(decided.retry_after.map(|after| ("hivemind.rate_limit.retry_after", Value::count(after))));
        all
    }

    /// A refusal is no error: it is what the service is for.
    fn status(&self, on_limit: OnLimit) -> Status {
        match self.answered {
            None => Status::Error("not answered: the caller went, or its time was over"),
            Some(Answered::Http(500..)) => Status::Error("answered with an error"),
            // As the conventions have it: what the caller did wrong is no error of ours.
            Some(Answered::Grpc(2 | 4 | 12 | 13 | 14 | 15)) => Status::Error("answered with an error"),
            Some(_) => {
                let is_limited = self.decided.as_ref().is_some_and(|of| of.is_limited == Some(true));
                if is_limited && on_limit == OnLimit::Ok { Status::Ok } else { Status::Unset }
            }
        }
    }
}

impl Keeper {
    const fn name(self) -> &'static str {
        match self {
            Self::Memory => "memory",
            Self::Mesh => "mesh",
            Self::Redis => "redis",
        }
    }
}

/// A method as the conventions have it; any other may be anybody's word.
fn known(method: &Method) -> &'static str {
    match method.as_str() {
        "GET" => "GET",
        "HEAD" => "HEAD",
        "POST" => "POST",
        "PUT" => "PUT",
        "DELETE" => "DELETE",
        "PATCH" => "PATCH",
        "OPTIONS" => "OPTIONS",
        "TRACE" => "TRACE",
        "CONNECT" => "CONNECT",
        _ => "_OTHER",
    }
}
