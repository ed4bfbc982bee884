//! Text output of a comparison: totals, limited keys, and a chart over time for each rule set.

use super::{Both, Comparison, Total};
use crate::replay::chart::{self, Bar};
use crate::replay::summary::{name_of, percent, percent_of_rest};
use std::fmt;

const SHOWN: usize = 10;

impl fmt::Display for Comparison {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Both { now, then } = self.total;
        writeln!(f, "{:>10} requests\n", self.requests)?;
        writeln!(f, "{:>18}{:>18}", "now", "then")?;
        let cell =
            |total: Total| format!("{} ({})", total.allowed, percent_of_rest(total.limited, self.requests));
        writeln!(f, "{:>18}{:>18}  allowed", cell(now), cell(then))?;
        for (what, now, then) in
            [("limited", now.limited, then.limited), ("without a limit", now.unlimited, then.unlimited)]
        {
            let cell = |count| format!("{count} ({})", percent(count, self.requests));
            writeln!(f, "{:>18}{:>18}  {what}", cell(now), cell(then))?;
        }
        writeln!(f, "\n{:>10} newly limited\n{:>10} newly allowed", self.newly_limited, self.newly_allowed)?;
        let first = self.first(SHOWN);
        if !first.is_empty() {
            writeln!(f, "\n{:>10}{:>10}{:>10}  who", "limited", "then", "requests")?;
        }
        for (who, tally) in first {
            let entries = who.entries.iter().map(|(key, value)| (key.as_str(), value.as_str()));
            let name = name_of(&who.domain, entries);
            let Both { now, then } = tally.limited;
            writeln!(f, "{now:>10}{then:>10}{:>10}  {name}", tally.requests)?;
        }
        if self.unnamed > 0 {
            let text = "of keys that were not counted individually; the most limited ones may be among them";
            writeln!(f, "\n{:>10} requests {text}", self.unnamed)?;
        }
        if self.cut > 0 {
            let text = "with truncated texts; keys with the same truncated texts count as one";
            writeln!(f, "\n{:>10} requests {text}", self.cut)?;
        }
        if self.requests == 0 {
            return Ok(());
        }
        let columns = self.timeline.columns();
        for (what, of) in [("Now", 1), ("Then", 2)] {
            let bars: Vec<Bar> = columns
                .iter()
                .map(|column| {
                    let [requests, now, then] = *column;
                    let limited = if of == 1 { now } else { then };
                    Bar { allowed: requests.saturating_sub(limited), limited }
                })
                .collect();
            chart::write(f, what, &bars, self.timeline.width_ms())?;
        }
        Ok(())
    }
}
