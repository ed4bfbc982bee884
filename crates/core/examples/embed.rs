#![expect(clippy::print_stdout, reason = "an example prints its decisions")]

//! An embedded limiter, without a server and an async runtime: each line of standard input is a user's request,
//! each line of standard output a decision. `printf 'ada\nada\n' | cargo run --example embed`.

use hivemind_core::{Budget, Descriptor, Limit, Limiter, Matcher, Period, Rate, Rule, Rules};
use std::error::Error;
use std::io::BufRead;

fn main() -> Result<(), Box<dyn Error>> {
    // A burst of three, one per ten seconds and five per day; the user `trial` only has the daily limit.
    let steady = Limit::token_bucket(Rate::new(6, Period::MINUTE)?, 3)?;
    let daily = Limit::fixed_window(5, Period::DAY);
    let rules = Rules::new()
        .with("app", &[Matcher::any("user")], Rule::new(Budget::Limits(vec![steady, daily])))?
        .with("app", &[Matcher::exact("user", "trial")], Rule::new(Budget::Limits(vec![daily])))?;
    let limiter = Limiter::new(rules)?;

    for user in std::io::stdin().lock().lines() {
        let user = user?;
        let decision = limiter.check("app", &[Descriptor::new(&[("user", &user)])]);
        match decision.retry_after() {
            None => println!("{user}: passes, {} left", decision.remaining().unwrap_or(u64::MAX)),
            Some(wait) => println!("{user}: again in {} s", wait.as_secs() + 1),
        }
    }
    Ok(())
}
