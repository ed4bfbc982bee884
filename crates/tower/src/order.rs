//! What one request is charged to: its bucket and, where it names itself, the guard
//! of its address. It is kept with the decision, so that what is refunded or debited
//! later goes to the very same counters.

use crate::address_text::AddressText;
use crate::bucket::{Bucket, LimitKind};
use crate::client::Client;
use crate::resolved::Resolved;
use hivemind_core::store::{Charge, Key, Mode, Op, Parts};
use hivemind_core::{Cost, Entry};
use smallvec::SmallVec;
use std::sync::Arc;

#[derive(Clone)]
pub(crate) struct Order {
    pub(crate) client: Client,
    /// The service as its layer calls it.
    pub(crate) service: Arc<str>,
    pub(crate) bucket: Arc<Bucket>,
    pub(crate) guard: Option<Guard>,
    key: Key,
}

/// The guard of an address, charged beside whatever its clients call themselves.
#[derive(Clone)]
pub(crate) struct Guard {
    pub(crate) bucket: Arc<Bucket>,
    address: AddressText,
    key: Key,
}

/// What each charge of an order costs, the client's own first.
pub(crate) type Costs = [Cost; 2];

impl Order {
    pub(crate) fn new(
        client: Client,
        service: &Arc<str>,
        bucket: &Arc<Bucket>,
        guard: Option<&Arc<Bucket>>,
    ) -> Self {
        let counted_for = bucket.service.as_deref().unwrap_or(service);
        let key = match bucket.kind {
            LimitKind::Http => bucket.prefix.key([counted_for, &bucket.endpoint, client.name()]),
            _ => bucket.prefix.key([counted_for, client.name()]),
        };
        // The narrower of two: that of everything, or of what is charged.
        let guard = guard.filter(|_| !client.is_by_address()).map(|all| bucket.guard.as_ref().unwrap_or(all));
        let guard = guard.map(|guard| Guard::new(guard, service, &client));
        Self { client, service: Arc::clone(service), bucket: Arc::clone(bucket), guard, key }
    }

    /// The same by the limits that are in force now, where they still have its counters: an endpoint may be
    /// gone, or its counter another one because it counts in another way.
    pub(crate) fn renewed(&self, limits: &Resolved) -> Self {
        let (mut renewed, service) = (self.clone(), limits.service(&self.service));
        let bucket = service.named(self.bucket.kind, &self.bucket.endpoint).unwrap_or(&self.bucket);
        let now = Self::new(self.client, &self.service, bucket, limits.guard.as_ref());
        if now.key == self.key {
            renewed.bucket = now.bucket;
        }
        if let (Some(guard), Some(now)) = (&mut renewed.guard, now.guard)
            && guard.key == now.key
        {
            *guard = now;
        }
        renewed
    }

    /// Whether it is charged to so many counters.
    pub(crate) fn has(&self, charges: usize) -> bool {
        charges == 1 + usize::from(self.guard.is_some())
    }

    /// Whether what this charge would refuse is refused.
    pub(crate) fn enforces(&self, index: usize) -> bool {
        let guard = self.guard.as_ref().filter(|_| index > 0);
        !guard.map_or(&self.bucket, |guard| &guard.bucket).dry_run
    }

    /// The same, told of another bucket and with no guard.
    pub(crate) fn of(self, bucket: &Arc<Bucket>) -> Self {
        Self { bucket: Arc::clone(bucket), guard: None, ..self }
    }

    /// The readable parts of the names of its counters.
    pub(crate) fn names(&self) -> Names<'_> {
        let service = ("service", self.bucket.service.as_deref().unwrap_or(&self.service));
        let client = ("client", self.client.name());
        let own = match self.bucket.kind {
            LimitKind::Http => ([service, ("endpoint", &self.bucket.endpoint), client], 3),
            _ => ([service, client, ("", "")], 2),
        };
        let address = ("address", self.guard.as_ref().map_or("", |guard| guard.address.as_str()));
        let of_place = self.guard.as_ref().filter(|guard| guard.bucket.is_of_place);
        let guard = match of_place {
            Some(guard) => ([service, ("endpoint", &*guard.bucket.endpoint), address], 3),
            None => ([address, ("", ""), ("", "")], 1),
        };
        Names { own: own.0, count: own.1, guard: guard.0, guard_count: guard.1 }
    }

    /// One charge for each of its counters, the client's own first.
    pub(crate) fn batch<'a>(
        &'a self,
        names: &'a Names<'a>,
        op: Op,
        costs: Costs,
    ) -> SmallVec<[Charge<'a>; 2]> {
        let [own_cost, guard_cost] = costs;
        let charge = |bucket: &'a Bucket, key, entries, cost| {
            let parts = Parts { domain: bucket.kind.domain(), entries };
            let mode = if bucket.dry_run { Mode::Shadow } else { Mode::Enforce };
            Charge { cost, op, mode, ..Charge::spend(key, parts, &bucket.limit) }
        };
        let own = charge(&self.bucket, self.key, names.own.get(..names.count).unwrap_or_default(), own_cost);
        let guard = self.guard.as_ref();
        let guard = guard.map(|guard| {
            let entries = names.guard.get(..names.guard_count).unwrap_or_default();
            charge(&guard.bucket, guard.key, entries, guard_cost)
        });
        std::iter::once(own).chain(guard).collect()
    }
}

/// The readable parts of an order's names, for those who name counters or show them.
pub(crate) struct Names<'a> {
    own: [Entry<'a>; 3],
    count: usize,
    guard: [Entry<'a>; 3],
    guard_count: usize,
}

impl Guard {
    fn new(bucket: &Arc<Bucket>, service: &str, client: &Client) -> Self {
        let address = AddressText::of(client.address());
        let counted_for = bucket.service.as_deref().unwrap_or(service);
        let key = if bucket.is_of_place {
            bucket.prefix.key([counted_for, &bucket.endpoint, address.as_str()])
        } else {
            bucket.prefix.key([address.as_str()])
        };
        Self { bucket: Arc::clone(bucket), address, key }
    }
}
