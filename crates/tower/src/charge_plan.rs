//! Charge plan of a request: the client's bucket and, unless the client is identified by its address alone,
//! the guard of its address.
//!
//! The plan is kept in the decision, so that a later refund or debit reaches the same counters.

use crate::active_limits::ActiveLimits;
use crate::address_text::AddressText;
use crate::bucket::Bucket;
use crate::client::Client;
use crate::limit_kind::LimitKind;
use hivemind_core::store::{Charge, Key, Mode, Op, Parts};
use hivemind_core::{Cost, Entry};
use smallvec::SmallVec;
use std::sync::Arc;

#[derive(Clone)]
pub(crate) struct ChargePlan {
    pub(crate) client: Client,
    /// The name that the layer gives the service.
    pub(crate) service: Arc<str>,
    pub(crate) bucket: Arc<Bucket>,
    pub(crate) guard: Option<AddressGuard>,
    key: Key,
}

/// The guard of an address, charged in addition to the client's bucket.
#[derive(Clone)]
pub(crate) struct AddressGuard {
    pub(crate) bucket: Arc<Bucket>,
    address: AddressText,
    key: Key,
}

/// The cost of each charge, the client's own first.
pub(crate) type Costs = [Cost; 2];

impl ChargePlan {
    pub(crate) fn new(
        client: Client,
        service: &Arc<str>,
        bucket: &Arc<Bucket>,
        guard: Option<&Arc<Bucket>>,
    ) -> Self {
        let counted_service = bucket.service.as_deref().unwrap_or(service);
        let key = match bucket.kind {
            LimitKind::Http => bucket.prefix.key([counted_service, &bucket.endpoint, client.name()]),
            _ => bucket.prefix.key([counted_service, client.name()]),
        };
        // The bucket's own guard exists only where it is stricter than the global one.
        let guard =
            guard.filter(|_| !client.is_by_address()).map(|global| bucket.guard.as_ref().unwrap_or(global));
        let guard = guard.map(|guard| AddressGuard::new(guard, service, &client));
        Self { client, service: Arc::clone(service), bucket: Arc::clone(bucket), guard, key }
    }

    /// The same counters with the active limits. A counter that they no longer have keeps its limit: its
    /// endpoint may be gone, or another algorithm may have given it another key.
    pub(crate) fn refreshed(&self, limits: &ActiveLimits) -> Self {
        let (mut refreshed, service) = (self.clone(), limits.service(&self.service));
        let bucket = service.find_by_name(self.bucket.kind, &self.bucket.endpoint).unwrap_or(&self.bucket);
        let now = Self::new(self.client, &self.service, bucket, limits.guard.as_ref());
        if now.key == self.key {
            refreshed.bucket = now.bucket;
        }
        if let (Some(guard), Some(now)) = (&mut refreshed.guard, now.guard)
            && guard.key == now.key
        {
            *guard = now;
        }
        refreshed
    }

    /// The number of its charges.
    pub(crate) fn len(&self) -> usize {
        1 + usize::from(self.guard.is_some())
    }

    /// Whether a refusal of this charge refuses the request: its limit is not in dry run.
    pub(crate) fn is_enforced(&self, index: usize) -> bool {
        let guard = self.guard.as_ref().filter(|_| index > 0);
        !guard.map_or(&self.bucket, |guard| &guard.bucket).dry_run
    }

    /// The same plan with another bucket and without a guard.
    pub(crate) fn with_bucket(self, bucket: &Arc<Bucket>) -> Self {
        Self { bucket: Arc::clone(bucket), guard: None, ..self }
    }

    /// The readable parts of its counters' names.
    pub(crate) fn names(&self) -> ChargeNames<'_> {
        let service = ("service", self.bucket.service.as_deref().unwrap_or(&self.service));
        let client = ("client", self.client.name());
        let own = match self.bucket.kind {
            LimitKind::Http => ([service, ("endpoint", &self.bucket.endpoint), client], 3),
            _ => ([service, client, ("", "")], 2),
        };
        let address = ("address", self.guard.as_ref().map_or("", |guard| guard.address.as_str()));
        let scoped = self.guard.as_ref().filter(|guard| guard.bucket.is_scoped);
        let guard = match scoped {
            Some(guard) => ([service, ("endpoint", &*guard.bucket.endpoint), address], 3),
            None => ([address, ("", ""), ("", "")], 1),
        };
        ChargeNames { own: own.0, count: own.1, guard: guard.0, guard_count: guard.1 }
    }

    /// One charge for each of its counters, the client's own first.
    pub(crate) fn batch<'a>(
        &'a self,
        names: &'a ChargeNames<'a>,
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

/// The readable parts of a plan's counter names. A batch borrows them.
pub(crate) struct ChargeNames<'a> {
    own: [Entry<'a>; 3],
    count: usize,
    guard: [Entry<'a>; 3],
    guard_count: usize,
}

impl AddressGuard {
    fn new(bucket: &Arc<Bucket>, service: &str, client: &Client) -> Self {
        let address = AddressText::new(client.address());
        let counted_service = bucket.service.as_deref().unwrap_or(service);
        let key = if bucket.is_scoped {
            bucket.prefix.key([counted_service, &bucket.endpoint, address.as_str()])
        } else {
            bucket.prefix.key([address.as_str()])
        };
        Self { bucket: Arc::clone(bucket), address, key }
    }
}
