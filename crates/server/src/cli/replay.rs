//! `hivemind replay`: decides recorded requests at their own times.

use crate::config::{demo_rules, load_rules};
use crate::replay::{AccessLog, Both, Comparison, Engine, Lines, Recorded, Summary, Taken};
use anyhow::{Context, bail};
use clap::{Args, ValueEnum};
use hivemind_core::Rules;
use hivemind_core::store::OnRefusal;
use std::fs::File;
use std::io::{self, BufRead, BufReader, BufWriter, Read, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

const DEMO_REQUESTS: &str = include_str!("../../demo/requests.jsonl");

const LONG_ABOUT: &str = r#"Decide recorded requests at their own times, with the product's own engine.

Reads one request a line and writes one decision a line, in order, in constant
memory, whatever the size of the file:

  {"t_ms": 0, "domain": "demo", "entries": [["remote_address", "203.0.113.9"]], "hits": 1}
  {"t_ms":0,"allow":true,"remaining":19,"retry_after_ms":null}

`t_ms` is milliseconds since the Unix epoch; `hits` is 1 where it is left out, and 0
looks without spending. `remaining` is null where no rule answers, `retry_after_ms`
where the request passed or no wait would help.

With --against and --summary the same requests are decided under two sets of rules, each on
counters that begin empty: `now` is --against, `then` is --rules. POST /api/v1/simulate
of a running service tells the same."#;

/// Decide recorded requests at their own times
#[derive(Args)]
#[command(long_about = LONG_ABOUT, after_long_help = "Examples:
  hivemind replay --demo --summary
  hivemind replay --rules rules.yaml requests.jsonl
  hivemind replay --rules rules/ --format combined --summary /var/log/nginx/access.log
  hivemind replay --rules new.yaml --against rules.yaml --summary requests.jsonl
  tail -f requests.jsonl | hivemind replay --rules rules.yaml

Exits with 0 whatever was refused; with 1 if the rules are wrong, a file cannot be
read, or a line is malformed and --malformed is stop.")]
pub(super) struct Replay {
    /// Rules: a file, or a folder of .yaml and .yml files. Without it, the rules of --demo
    #[arg(long, value_name = "PATH")]
    rules: Option<PathBuf>,

    /// With --summary: other rules, those of today say; who is limited under which is shown side by side
    #[arg(long, value_name = "PATH", requires = "summary")]
    against: Option<PathBuf>,

    /// Let several files have rules of one domain, as `rate_limiting.merge_domains` does
    #[arg(long)]
    merge_domains: bool,

    /// The recorded requests; `-` or none is standard input
    #[arg(value_name = "FILE", conflicts_with = "demo")]
    file: Option<PathBuf>,

    /// Replay built-in requests: a client that floods, one that behaves, one that is let through
    #[arg(long)]
    demo: bool,

    /// What a line is
    #[arg(long, value_enum, default_value_t = Format::Json)]
    format: Format,

    /// With --format combined: the domain to ask. Needed if the rules have several
    #[arg(long, value_name = "NAME")]
    domain: Option<String>,

    /// With --format combined: the entries of a request, in order, of
    /// `remote_address`, `remote_user`, `method`, `path`, `status`, `referer`, `user_agent`
    #[arg(long, value_name = "LIST", value_delimiter = ',', default_value = "remote_address")]
    entries: Vec<String>,

    /// Instead of the decisions, print who would have been limited, as a table and a chart
    #[arg(long)]
    summary: bool,

    /// What to do at a line that cannot be read: end there, or name it and go on
    #[arg(long, value_enum, default_value_t = Malformed::Stop)]
    malformed: Malformed,

    /// What windows count of a request that was refused, as `rate_limiting.on_refusal` of the service does
    #[arg(long, value_enum, default_value_t = Refusal::Refusing)]
    on_refusal: Refusal,

    /// The most keys to remember at once; past it, new keys share buckets
    #[arg(long, value_name = "COUNT", default_value_t = 1_000_000, value_parser = clap::value_parser!(u32).range(1..=1_000_000_000))]
    max_keys: u32,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Format {
    /// Our own lines, see above
    Json,
    /// An access log of nginx or Apache
    Combined,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Malformed {
    Stop,
    Skip,
}

/// As the configuration names them.
#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Refusal {
    /// The limits that refused count it, the others do not
    #[value(name = "count_refusing")]
    Refusing,
    /// Every limit counts it
    #[value(name = "count_all")]
    All,
    /// None counts it
    #[value(name = "count_none")]
    None,
}

impl From<Refusal> for OnRefusal {
    fn from(refusal: Refusal) -> Self {
        match refusal {
            Refusal::Refusing => Self::CountRefusing,
            Refusal::All => Self::CountAll,
            Refusal::None => Self::CountNone,
        }
    }
}

impl Replay {
    pub(super) fn run(&self) -> anyhow::Result<ExitCode> {
        let rules = self.load(self.rules.as_deref())?;
        let reader = self.reader(&rules)?;
        let mut course = self.course(rules)?;
        let mut lines = Lines::new(self.input()?);
        let mut output = BufWriter::new(io::stdout().lock());
        let mut skipped = 0_u64;
        while let Some(line) = lines.next().with_context(|| format!("reading {}", self.input_name()))? {
            let recorded = line.text.and_then(|text| reader.read(text));
            let recorded = match recorded {
                Ok(recorded) => recorded,
                Err(malformed) => {
                    let place = format!("{}:{}: {malformed}", self.input_name(), line.number);
                    if self.malformed == Malformed::Stop {
                        output.flush()?;
                        bail!("{place}; `--malformed skip` goes on after such lines");
                    }
                    writeln!(io::stderr(), "hivemind: {place}; skipped")?;
                    skipped += 1;
                    continue;
                }
            };
            course.take(&recorded, &mut output)?;
            // Whoever types, or follows a log, wants the answer now and not with the next hundred.
            if !lines.has_more_at_hand() {
                output.flush()?;
            }
        }
        match &course {
            Course::Told(_) => {}
            Course::Summed(_, summary) => write!(output, "{summary}")?,
            Course::Compared(comparison) => write!(output, "{comparison}")?,
        }
        output.flush()?;
        self.say_what_was_lost(skipped, course.overflowed())?;
        Ok(ExitCode::SUCCESS)
    }

    /// What is done with each request.
    fn course(&self, rules: Rules) -> anyhow::Result<Course> {
        let (max_keys, on_refusal) = (usize::try_from(self.max_keys)?, self.on_refusal.into());
        if let Some(against) = &self.against {
            let rules = Both { now: self.load(Some(against))?, then: rules };
            return Ok(Course::Compared(Box::new(Comparison::new(rules, max_keys, on_refusal))));
        }
        let engine = Engine::new(rules, max_keys, on_refusal);
        Ok(if self.summary { Course::Summed(engine, Summary::default()) } else { Course::Told(engine) })
    }

    /// The rules at a path; without one, those of the demo.
    fn load(&self, path: Option<&Path>) -> anyhow::Result<Rules> {
        let loaded = match path {
            Some(path) => load_rules(path, self.merge_domains)?,
            None => demo_rules()?,
        };
        for warning in &loaded.warnings {
            writeln!(io::stderr(), "{warning}\n")?;
        }
        Ok(loaded.ruleset.rules)
    }

    fn reader(&self, rules: &Rules) -> anyhow::Result<Reader> {
        if self.format == Format::Json {
            return Ok(Reader::Json);
        }
        let domains: Vec<&str> = rules.domains().collect();
        let domain = match (&self.domain, domains.as_slice()) {
            (Some(domain), _) => domain.clone(),
            (None, [only]) => (*only).to_owned(),
            (None, several) => {
                bail!("the rules have {} domains; choose one with --domain", several.len())
            }
        };
        Ok(Reader::Combined(AccessLog::new(domain, &self.entries)?))
    }

    fn input(&self) -> anyhow::Result<Box<dyn BufRead>> {
        let read: Box<dyn Read> = match &self.file {
            None if self.demo => Box::new(DEMO_REQUESTS.as_bytes()),
            None => Box::new(io::stdin()),
            Some(path) if path == Path::new("-") => Box::new(io::stdin()),
            Some(path) => Box::new(File::open(path).with_context(|| format!("opening {}", path.display()))?),
        };
        Ok(Box::new(BufReader::with_capacity(64 << 10, read)))
    }

    fn input_name(&self) -> String {
        match &self.file {
            None if self.demo => "built-in demo requests".into(),
            Some(path) if path != Path::new("-") => path.display().to_string(),
            _ => "standard input".into(),
        }
    }

    fn say_what_was_lost(&self, skipped: u64, overflowed: u64) -> io::Result<()> {
        if skipped > 0 {
            writeln!(io::stderr(), "hivemind: {skipped} malformed lines were skipped")?;
        }
        if overflowed > 0 {
            let text = "decisions found no room for a key of their own and shared a bucket; raise --max-keys";
            writeln!(io::stderr(), "hivemind: {overflowed} {text} (now {})", self.max_keys)?;
        }
        Ok(())
    }
}

/// What is done with each request.
enum Course {
    Told(Engine),
    Summed(Engine, Summary),
    Compared(Box<Comparison>),
}

impl Course {
    fn take(&mut self, recorded: &Recorded<'_>, output: &mut impl Write) -> io::Result<()> {
        match self {
            Self::Told(engine) => return write_decision(output, recorded, &engine.decide(recorded)),
            Self::Summed(engine, summary) => summary.add(recorded, &engine.decide(recorded)),
            Self::Compared(comparison) => {
                let entries = recorded.entries();
                comparison.decide(recorded.at(), &recorded.domain, &[recorded.descriptor(&entries)]);
            }
        }
        Ok(())
    }

    fn overflowed(&self) -> u64 {
        match self {
            Self::Told(engine) | Self::Summed(engine, _) => engine.overflowed(),
            Self::Compared(comparison) => comparison.overflowed(),
        }
    }
}

enum Reader {
    Json,
    Combined(AccessLog),
}

impl Reader {
    fn read<'a>(&'a self, line: &'a str) -> Result<Recorded<'a>, crate::replay::Malformed> {
        match self {
            Self::Json => Recorded::from_json(line),
            Self::Combined(log) => log.read(line),
        }
    }
}

fn write_decision(output: &mut impl Write, recorded: &Recorded<'_>, taken: &Taken) -> io::Result<()> {
    #[derive(serde::Serialize)]
    struct Line {
        t_ms: u64,
        allow: bool,
        remaining: Option<u64>,
        retry_after_ms: Option<u64>,
    }
    let &Taken { allow, remaining, retry_after_ms } = taken;
    serde_json::to_writer(&mut *output, &Line { t_ms: recorded.t_ms, allow, remaining, retry_after_ms })
        .map_err(io::Error::from)?;
    output.write_all(b"\n")
}
