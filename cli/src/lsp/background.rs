//! Work that takes longer than an answer may, on threads of its own.
//!
//! A thread takes the newest text of each program and leaves out those in between, so that its
//! results are late by one run at most, however fast their author types.

use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread;
use std::time::Duration;

use gen_lsp_types::Uri;
use indexmap::IndexMap;
use shardwise::Options;
use shardwise::editor::{Document, Insight};
use shardwise::lint::{Linted, lint};

use super::{Event, Setting};
use crate::configs::{Configs, set_levels};
use crate::error::Result;
use crate::programs::Found;

/// The time limit of a search, unless the command has another.
const TIME_LIMIT: Duration = Duration::from_secs(2);

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
    /// What the plan says; nothing where there is no plan.
    Planned(Option<Insight>),
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
        Ok(lint(&job.name, &job.text, &setting.options, &settings))
    };
    linted().map_or_else(|error| Outcome::Failed(error.to_string()), Outcome::Linted)
}

/// Plans, and gives up at the time limit: an author who waits for a proof runs `plan`.
pub(super) fn planned(job: &Job, setting: &Setting) -> Outcome {
    let timeout = setting.options.timeout.or(Some(TIME_LIMIT));
    let options = Options { timeout, ..setting.options.clone() };
    let planned = shardwise::plan(&job.name, &job.text, &options).ok();
    let document = Document::new(&*job.name, &*job.text);
    Outcome::Planned(planned.map(|planned| Insight::of(&document, &planned)))
}
