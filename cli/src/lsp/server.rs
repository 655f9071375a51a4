//! The state of the server, and what messages do to it.

use std::collections::BTreeMap;
use std::sync::mpsc::Sender;

use gen_lsp_types::{
    CodeLensRefreshRequest, DidChangeTextDocumentNotification, DidChangeWatchedFilesNotification,
    DidCloseTextDocumentNotification, DidOpenTextDocumentNotification,
    DidSaveTextDocumentNotification, InitializeParams, InlayHintRefreshRequest, MessageType,
    Notification, PublishDiagnosticsNotification, PublishDiagnosticsParams, Request,
    ShowMessageNotification, ShowMessageParams, ShutdownRequest, Uri,
};

use lsp_server::RequestId;
use shardwise::Options;

use super::background::{Analysis, Outcome, Worker, linted, planned, searched};
use super::dispatch::{Requested, read};
use super::documents::{Open, Revision};
use super::{Event, Setting, convert, features};

/// The server.
pub(super) struct Server {
    sender: Messages,
    setting: Setting,
    open: BTreeMap<Uri, Open>,
    lints: Worker,
    plans: Worker,
    /// Goes on where the time limit of `plans` ended a search.
    searches: Worker,
    /// Whether the editor asks again for hints and lenses when it is asked to.
    refreshes: Refreshes,
    /// Texts so far.
    revisions: u64,
    /// What was last reported to be wrong with a configuration.
    failure: Option<String>,
    is_shut_down: bool,
}

/// Which answers the editor asks for again.
#[derive(Clone, Copy)]
struct Refreshes {
    hints: bool,
    lenses: bool,
}

impl Refreshes {
    fn of(params: &InitializeParams) -> Self {
        let workspace = params.capabilities.workspace.as_ref();
        let hints = workspace.and_then(|it| it.inlay_hint.as_ref()?.refresh_support);
        let lenses = workspace.and_then(|it| it.code_lens.as_ref()?.refresh_support);
        Self { hints: hints.unwrap_or_default(), lenses: lenses.unwrap_or_default() }
    }
}

/// Sends messages to the editor.
type Messages = Box<dyn Fn(lsp_server::Message)>;

impl Server {
    pub(super) fn new(
        sender: impl Fn(lsp_server::Message) + 'static,
        params: &InitializeParams,
        setting: Setting,
        events: &Sender<Event>,
    ) -> Self {
        let for_lints = setting.clone();
        let lints = Worker::start(events.clone(), move |job| linted(job, &for_lints));
        let for_plans = setting.clone();
        let plans = Worker::start(events.clone(), move |job| planned(job, &for_plans));
        let for_searches = setting.clone();
        let searches = Worker::start(events.clone(), move |job| searched(job, &for_searches));
        Self {
            sender: Box::new(sender),
            setting,
            open: BTreeMap::new(),
            lints,
            plans,
            searches,
            refreshes: Refreshes::of(params),
            revisions: 0,
            failure: None,
            is_shut_down: false,
        }
    }

    /// Whether the editor asked it to end.
    pub(super) fn is_shut_down(&self) -> bool {
        self.is_shut_down
    }

    /// Options of planning and checking.
    pub(super) fn options(&self) -> &Options {
        &self.setting.options
    }

    /// The program with an address, if the editor has it open.
    pub(super) fn open(&self, uri: &Uri) -> Option<&Open> {
        self.open.get(uri)
    }

    /// Answers a request.
    pub(super) fn request(&mut self, request: lsp_server::Request) {
        self.is_shut_down |= request.method == "shutdown";
        let requested = Requested::new(&*self, request).on::<ShutdownRequest>(|_, ()| ());
        let response = features::answer(requested).finish();
        self.send(response);
    }

    /// Takes a notification; one that is not known says nothing that matters here.
    pub(super) fn notification(&mut self, notification: lsp_server::Notification) {
        if let Some(params) = read::<DidOpenTextDocumentNotification>(&notification) {
            let of = params.text_document;
            let named = (convert::name(&of.uri), of.text);
            let revision = self.next_revision();
            let open = Open::new(named, of.version, revision, &self.setting.options);
            self.open.insert(of.uri.clone(), open);
            self.changed(&of.uri);
        } else if let Some(params) = read::<DidChangeTextDocumentNotification>(&notification) {
            let of = params.text_document;
            let (uri, version) = (of.text_document_identifier.uri, of.version);
            let revision = self.next_revision();
            if let Some(open) = self.open.get_mut(&uri) {
                let text = open.changed(params.content_changes);
                open.replace(text, version, revision, &self.setting.options);
            }
            self.changed(&uri);
        } else if let Some(params) = read::<DidCloseTextDocumentNotification>(&notification) {
            let uri = params.text_document.uri;
            self.open.remove(&uri);
            self.publish(&uri);
        } else if notification.method == DidSaveTextDocumentNotification::METHOD.as_str()
            || notification.method == DidChangeWatchedFilesNotification::METHOD.as_str()
        {
            self.files_changed();
        }
    }

    /// Hardware files or configurations may be others now.
    fn files_changed(&mut self) {
        let uris: Vec<Uri> = self.open.keys().cloned().collect();
        for uri in uris {
            let revision = self.next_revision();
            if let Some(open) = self.open.get_mut(&uri) {
                open.revision = revision;
                open.check(&self.setting.options);
            }
            self.changed(&uri);
        }
    }

    fn next_revision(&mut self) -> Revision {
        self.revisions += 1;
        Revision::new(self.revisions)
    }

    /// Shows what is known of a program, and starts to find out the rest.
    fn changed(&self, uri: &Uri) {
        self.publish(uri);
        let Some(open) = self.open.get(uri) else { return };
        let job = open.job(uri);
        self.lints.take(job.clone());
        self.plans.take(job);
    }

    /// Takes a result of the background, unless it is about an older text.
    pub(super) fn analyzed(&mut self, Analysis { uri, revision, outcome }: Analysis) {
        let Some(open) = self.open.get_mut(&uri).filter(|open| open.revision.number == revision)
        else {
            return;
        };
        match outcome {
            Outcome::Linted(linted) => {
                open.set_linted(linted);
                self.failure = None;
                self.publish(&uri);
            }
            Outcome::Planned(insight, goes_on) => {
                open.set_insight(insight);
                if goes_on {
                    self.searches.take(open.job(&uri));
                }
                self.refresh();
            }
            Outcome::Failed(message) => {
                // Once, and not with each key.
                if self.failure.as_ref() != Some(&message) {
                    self.failure = Some(message.clone());
                    let kind = MessageType::Error;
                    self.notify::<ShowMessageNotification>(ShowMessageParams { kind, message });
                }
            }
        }
    }

    /// Asks the editor to ask again for what a plan says. The answers need no attention.
    fn refresh(&mut self) {
        let Refreshes { hints, lenses } = self.refreshes;
        let methods = [
            (hints, InlayHintRefreshRequest::METHOD.as_str()),
            (lenses, CodeLensRefreshRequest::METHOD.as_str()),
        ];
        for (_, method) in methods.into_iter().filter(|(is_known, _)| *is_known) {
            let id = RequestId::from(format!("refresh-{}", self.next_revision().number));
            self.send(lsp_server::Request::new(id, method.to_owned(), ()));
        }
    }

    /// Sends the findings of a program; none of one that is closed.
    fn publish(&self, uri: &Uri) {
        let open = self.open.get(uri);
        let diagnostics = open.into_iter().flat_map(|open| {
            open.findings().map(|it| convert::diagnostic(uri, &open.document, &it.diag))
        });
        self.notify::<PublishDiagnosticsNotification>(PublishDiagnosticsParams {
            uri: uri.clone(),
            version: open.map(|open| open.version),
            diagnostics: diagnostics.collect(),
        });
    }

    fn notify<N: Notification>(&self, params: N::Params)
    where
        N::Params: serde::Serialize,
    {
        self.send(lsp_server::Notification::new(N::METHOD.as_str().to_owned(), params));
    }

    fn send(&self, message: impl Into<lsp_server::Message>) {
        (self.sender)(message.into());
    }
}
