#![expect(clippy::print_stdout, reason = "an example says what it decides")]

//! A limiter inside a program, with no server and no async runtime: each line of standard input is somebody who
//! asks, and each line of standard output whether they pass. `printf 'ada\nada\n' | cargo run --example embed`.

use hivemind_core::{Budget, Descriptor, Limit, Limiter, Matcher, Period, Rate, Rule, Rules};
use std::error::Error;
use std::io::BufRead;

fn main() -> Result<(), Box<dyn Error>> {
    // Three at once and one each ten seconds, and five a day; the guest has nothing but the day's.
    let steady = Limit::token_bucket(Rate::new(6, Period::MINUTE)?, 3)?;
    let daily = Limit::fixed_window(5, Period::DAY);
    let rules = Rules::new()
        .with("app", &[Matcher::any("user")], Rule::new(Budget::Limits(vec![steady, daily])))?
        .with("app", &[Matcher::exact("user", "guest")], Rule::new(Budget::Limits(vec![daily])))?;
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
