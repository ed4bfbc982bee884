//! Response times by result, for calls of the rate limit service and for requests of the gateway, which the metrics of
//! the reference service do not include.

use super::{DomainSeries, RequestSeries};
use crate::timings::Timings;
use std::sync::PoisonError;

#[derive(Debug, Default)]
pub struct ResponseTimes {
    pub ok: Timings,
    pub over_limit: Timings,
}

impl ResponseTimes {
    fn absorb(&self, ok: &Timings, over_limit: &Timings) {
        self.ok.absorb(ok);
        self.over_limit.absorb(over_limit);
    }
}

impl DomainSeries {
    /// Includes the gateway.
    pub(super) fn whole(&self) -> ResponseTimes {
        let whole = ResponseTimes::default();
        whole.absorb(&self.ok, &self.over_limit);
        whole.absorb(&self.of_gateway.ok, &self.of_gateway.over_limit);
        whole
    }
}

impl RequestSeries {
    /// Adds the counts of a removed domain to the totals.
    pub(super) fn retain_totals(&self, series: &DomainSeries) {
        self.gone.absorb(&series.ok, &series.over_limit);
        self.gone_of_gateway.absorb(&series.of_gateway.ok, &series.of_gateway.over_limit);
    }

    /// Response times of all calls since the start.
    pub fn total(&self) -> Timings {
        let ResponseTimes { ok: total, over_limit } = self.of_calls();
        total.absorb(&over_limit);
        total.absorb(&self.errors);
        total
    }

    /// The same for admitted and for refused calls.
    fn of_calls(&self) -> ResponseTimes {
        let total = ResponseTimes::default();
        let named = self.named.read().unwrap_or_else(PoisonError::into_inner);
        for series in named.domains.values().chain([&self.other]) {
            total.absorb(&series.ok, &series.over_limit);
        }
        total.absorb(&self.gone.ok, &self.gone.over_limit);
        total
    }

    /// The same for calls and requests of the gateway.
    pub(super) fn of_all(&self) -> ResponseTimes {
        let total = self.of_calls();
        let named = self.named.read().unwrap_or_else(PoisonError::into_inner);
        let of_gateway = named.domains.values().chain([&self.other]).map(|series| &series.of_gateway);
        for answered in of_gateway.chain([&self.gone_of_gateway]) {
            total.absorb(&answered.ok, &answered.over_limit);
        }
        total
    }

    pub(super) fn all_errors(&self) -> Timings {
        let all = Timings::default();
        all.absorb(&self.errors);
        all.absorb(&self.errors_of_gateway);
        all
    }
}
