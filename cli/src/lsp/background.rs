//! Work that takes longer than an answer may, on threads of its own.
//!
//! A thread takes the newest text of each program and leaves out those in between. An edit cancels
//! the search of the text before it, so that however fast its author types, a thread works on the
//! newest text.

use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread;
use std::time::{Duration, Instant};

use gen_lsp_types::Uri;
use indexmap::IndexMap;
use shardwise::Options;
use shardwise::editor::{Document, Insight};
use shardwise::lint::{Linted, lint};
use shardwise::options::Cancellation;

use super::{Event, Setting};
use crate::configs::{Configs, set_levels};
use crate::error::Result;
use crate::programs::Found;

/// After this time the best plan so far is shown, unless the command has another limit; then the
/// search goes on.
const SHOWN_AFTER: Duration = Duration::from_secs(2);

/// A text to work on.
#[derive(Clone)]
pub(super) struct Job {
    /// The program.
    pub(super) uri: Uri,
    /// The number of its text.
    pub(super) revision: u64,
    /// Its path.
    pub(super) name: String,
    /// The text.
    pub(super) text: String,
    /// Set when there is a newer text.
    pub(super) cancellation: Cancellation,
}

impl Job {
    /// The server's options, for a search that ends when there is a newer text.
    fn options(&self, setting: &Setting) -> Options {
        Options { cancellation: self.cancellation.clone(), ..setting.options.clone() }
    }
}

/// A result, and the text that it is about.
pub(super) struct Analysis {
    pub(super) uri: Uri,
    pub(super) revision: u64,
    pub(super) outcome: Outcome,
}

/// What was computed.
pub(super) enum Outcome {
    /// All findings of `check`.
    Linted(Linted),
    /// What the plan says; nothing where there is no plan. And whether the search goes on.
    Planned(Option<Insight>, bool),
    /// The configuration of the program cannot be read: why.
    Failed(String),
}

/// A thread that works on the newest texts.
pub(super) struct Worker {
    jobs: Sender<Job>,
}

impl Worker {
    /// Starts a thread that does `work` for each text, and sends the results as events.
    pub(super) fn start(
        events: Sender<Event>,
        mut work: impl FnMut(&Job) -> Outcome + Send + 'static,
    ) -> Self {
        let (jobs, received) = channel();
        // It ends when the server is dropped, or with the process.
        thread::spawn(move || {
            let newest = Newest { received, waiting: IndexMap::new() };
            for job in newest {
                let outcome = work(&job);
                let Job { uri, revision, .. } = job;
                if events.send(Event::Analysis(Analysis { uri, revision, outcome })).is_err() {
                    return;
                }
            }
        });
        Self { jobs }
    }

    /// Works on a text, instead of older ones of the same program.
    pub(super) fn take(&self, job: Job) {
        // The thread lives as long as this.
        let _ = self.jobs.send(job);
    }
}

/// The newest text of each program, in the order in which they were changed.
struct Newest {
    received: Receiver<Job>,
    waiting: IndexMap<Uri, Job>,
}

impl Iterator for Newest {
    type Item = Job;

    fn next(&mut self) -> Option<Job> {
        if self.waiting.is_empty() {
            let job = self.received.recv().ok()?;
            self.waiting.insert(job.uri.clone(), job);
        }
        self.waiting.extend(self.received.try_iter().map(|job| (job.uri.clone(), job)));
        self.waiting.shift_remove_index(0).map(|(_, job)| job)
    }
}

/// Lints as `check` does, with the nearest configuration as it is now.
pub(super) fn linted(job: &Job, setting: &Setting) -> Outcome {
    let linted = || -> Result<Linted> {
        let mut configs = Configs::new(setting.levels.config.as_deref(), setting.levels.isolated);
        let found = Found { path: job.name.clone(), in_folder: false };
        let mut settings = configs.settings(&found)?.unwrap_or_default();
        set_levels(&mut settings, &setting.levels);
        Ok(lint(&job.name, &job.text, &job.options(setting), &settings))
    };
    linted().map_or_else(|error| Outcome::Failed(error.to_string()), Outcome::Linted)
}

/// Plans within a time limit, so that an author sees a plan soon.
pub(super) fn planned(job: &Job, setting: &Setting) -> Outcome {
    let limit = setting.options.timeout.unwrap_or(SHOWN_AFTER);
    let begun = Instant::now();
    let insight = insight(job, &Options { timeout: Some(limit), ..job.options(setting) });
    let is_limited = setting.options.timeout.is_none();
    Outcome::Planned(insight, is_limited && begun.elapsed() >= limit)
}

/// Plans to the end of the search.
pub(super) fn searched(job: &Job, setting: &Setting) -> Outcome {
    Outcome::Planned(insight(job, &job.options(setting)), false)
}

fn insight(job: &Job, options: &Options) -> Option<Insight> {
    let planned = shardwise::plan(&job.name, &job.text, options).ok()?;
    Some(Insight::of(&Document::new(&*job.name, &*job.text), &planned))
}
