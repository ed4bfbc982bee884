//! Contenders: `Limiter` of core and Limitador. Both start from a domain and the entries of a descriptor, find
//! the rule, decide with fixed windows, and return the remaining hits and the reset time.

use hivemind_core::store::StoreOptions;
use hivemind_core::{
    Budget, Descriptor, Entry, Limit, Limiter, LimiterOptions, Matcher, Period, Rule, Rules, SystemClock,
};
use limitador::RateLimiter;
use limitador::limit::{Context, Expression, Limit as TheirLimit, Namespace, Predicate};
use std::collections::HashMap;
use std::hint::black_box;

/// The maximum number of keys of both.
pub const MOST_KEYS: usize = 1_000_000;

const DOMAIN: &str = "api";
const CLIENT: &str = "api_key";
const PLAN: &str = "plan";

/// A number of requests per window of this length.
pub type Window = (u32, Period);

/// `Limiter` of core, as embedded in a program.
pub struct Ours(Limiter);

impl Ours {
    /// One rule per client with all these windows.
    pub fn new(windows: &[Window]) -> Self {
        Self::of(Rules::new().with(DOMAIN, &[Matcher::any(CLIENT)], rule(windows)).expect("a rule"))
    }

    /// A rule for the clients of each of `plans`.
    pub fn of_plans(plans: &[String], window: Window) -> Self {
        let rules = plans.iter().fold(Rules::new(), |rules, plan| {
            let path = [Matcher::exact(PLAN, plan), Matcher::any(CLIENT)];
            rules.with(DOMAIN, &path, rule(&[window])).expect("a rule")
        });
        Self::of(rules)
    }

    fn of(rules: Rules) -> Self {
        let store = StoreOptions { max_keys: MOST_KEYS, ..StoreOptions::default() };
        let options = LimiterOptions { store, ..LimiterOptions::default() };
        Self(Limiter::with_clock(rules, SystemClock, options).expect("a thread starts"))
    }

    /// Whether one request of this client passes.
    pub fn admits(&self, name: &str) -> bool {
        self.left(&[(CLIENT, name)]).is_some()
    }

    /// The same for a client of a plan.
    pub fn admits_of(&self, plan: &str, name: &str) -> bool {
        self.left(&[(PLAN, plan), (CLIENT, name)]).is_some()
    }

    /// The remaining hits after one more request of this client; `None` if it was refused.
    pub fn left_to(&self, name: &str) -> Option<u64> {
        self.left(&[(CLIENT, name)])
    }

    fn left(&self, entries: &[Entry<'_>]) -> Option<u64> {
        // Read the whole decision, including waits, as a frontend does.
        let decision = black_box(self.0.check(DOMAIN, &[Descriptor::new(entries)]));
        if decision.is_allowed() { decision.remaining() } else { None }
    }
}

fn rule(windows: &[Window]) -> Rule {
    let limits = windows.iter().map(|(requests, period)| Limit::fixed_window(*requests, *period));
    Rule::new(Budget::Limits(limits.collect()))
}

/// Limitador's `RateLimiter` with its in-memory store.
pub struct Theirs {
    limiter: RateLimiter,
    /// Prepared: the server of Limitador moves the text of a request into it at no cost.
    namespace: Namespace,
}

impl Theirs {
    /// A limit with one variable per window.
    pub fn new(windows: &[Window]) -> Self {
        Self::of(windows.iter().map(|window| limit(*window, None)))
    }

    /// A limit with a condition per plan.
    pub fn of_plans(plans: &[String], window: Window) -> Self {
        Self::of(plans.iter().map(|plan| limit(window, Some(plan))))
    }

    fn of(limits: impl Iterator<Item = TheirLimit>) -> Self {
        let limiter = RateLimiter::new(MOST_KEYS as u64);
        for limit in limits {
            assert!(limiter.add_limit(limit), "each limit has its own identity");
        }
        Self { limiter, namespace: DOMAIN.into() }
    }

    /// Whether one request of this client passes.
    pub fn admits(&self, name: &str) -> bool {
        self.left_to(name).is_some()
    }

    /// The same for a client of a plan.
    pub fn admits_of(&self, plan: &str, name: &str) -> bool {
        self.left_in(&context(&[(PLAN, plan), (CLIENT, name)])).is_some()
    }

    /// The same with a prepared context, which is for one client only.
    pub fn admits_in(&self, context: &Context<'_>) -> bool {
        self.left_in(context).is_some()
    }

    /// The remaining hits after one more request of this client; `None` if it was refused.
    pub fn left_to(&self, name: &str) -> Option<u64> {
        self.left_in(&context(&[(CLIENT, name)]))
    }

    fn left_in(&self, context: &Context<'_>) -> Option<u64> {
        let checked = self.limiter.check_rate_limited_and_update(&self.namespace, context, 1);
        let checked = black_box(checked.expect("nothing in memory fails"));
        if checked.limited {
            return None;
        }
        checked.counters.iter().filter_map(limitador::counter::Counter::remaining).min()
    }
}

/// Limitador's context of one client.
pub fn context_of(name: &str) -> Context<'static> {
    context(&[(CLIENT, name)])
}

/// The only constructor takes a map of owned strings.
fn context(entries: &[Entry<'_>]) -> Context<'static> {
    let values: HashMap<String, String> =
        entries.iter().map(|(key, value)| (String::from(*key), String::from(*value))).collect();
    values.into()
}

fn limit((requests, period): Window, plan: Option<&String>) -> TheirLimit {
    let condition = plan.map(|plan| Predicate::parse(format!("{PLAN} == \"{plan}\"")).expect("a condition"));
    let variable = Expression::parse(CLIENT).expect("a variable");
    TheirLimit::new(DOMAIN, u64::from(requests), period.length().as_secs(), condition, [variable])
}
