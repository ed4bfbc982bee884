//! The load client. See `load --help`.

use rls_bench::args::{Args, HELP};
use rls_bench::tally::Tally;
use rls_bench::{grpc, http1, runtime};
use std::process::ExitCode;
use std::thread;
use std::time::{Duration, Instant};
use tokio::task::LocalSet;

/// The maximum wait for responses after the last request.
const GRACE: Duration = Duration::from_secs(20);

fn main() -> ExitCode {
    let words = std::env::args().skip(1);
    if words.len() == 0 || std::env::args().any(|word| word == "--help") {
        println!("{HELP}");
        return ExitCode::SUCCESS;
    }
    match Args::parse(words).and_then(|args| run(&args)) {
        Ok(line) => {
            println!("{line}");
            ExitCode::SUCCESS
        }
        Err(why) => {
            eprintln!("{why}");
            ExitCode::FAILURE
        }
    }
}

fn run(args: &Args) -> Result<String, String> {
    let start = Instant::now();
    let threads: Vec<_> = (0..args.threads)
        .map(|thread| {
            let share = args.share(thread);
            thread::spawn(move || one_thread(share))
        })
        .collect();
    let mut tally = Tally::default();
    for thread in threads {
        tally.merge(&thread.join().map_err(|_| "a thread panicked")??);
    }
    Ok(tally.json(start.elapsed().as_secs_f64()))
}

fn one_thread(args: Args) -> Result<Tally, String> {
    let limit = args.time + GRACE;
    let sent = async {
        let sent =
            async { if args.protocol == "grpc" { grpc::run(args).await } else { http1::run(args).await } };
        tokio::time::timeout(limit, sent)
            .await
            .map_err(|_| "responses are missing".to_owned())?
            .map_err(|e| e.to_string())
    };
    runtime("ct").map_err(|e| e.to_string())?.block_on(LocalSet::new().run_until(sent))
}
