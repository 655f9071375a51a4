//! An editor: starts the server as a process and speaks the protocol with it.

use std::collections::VecDeque;
use std::io::{BufRead, BufReader, Write};
use std::path::PathBuf;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

use serde_json::{Value, json};
use shardwise::editor::{Position, Positions};

/// No machine is slower than this.
const PATIENCE: Duration = Duration::from_secs(60);

pub(super) struct Client {
    child: Child,
    input: Option<ChildStdin>,
    messages: Receiver<Value>,
    /// Notifications that came before the answer that was waited for.
    waiting: VecDeque<Value>,
    folder: PathBuf,
    requests: u64,
}

impl Drop for Client {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Client {
    /// Starts the server in an empty folder, as an editor does that knows refreshes.
    pub(super) fn start(name: &str) -> Self {
        Self::start_with(name, &[])
    }

    /// The same with options of the server.
    pub(super) fn start_with(name: &str, options: &[&str]) -> Self {
        let folder = crate::common::empty_folder(name);
        let mut child = Command::new(crate::common::SHARDWISE)
            .args(["lsp", "--stdio"])
            .args(options)
            .current_dir(&folder)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("the command starts");
        let (sender, messages) = channel();
        let mut output = BufReader::new(child.stdout.take().expect("it is piped"));
        std::thread::spawn(move || {
            while let Some(message) = read(&mut output) {
                if sender.send(message).is_err() {
                    return;
                }
            }
        });
        let input = child.stdin.take();
        let (waiting, requests) = (VecDeque::new(), 0);
        let mut client = Self { child, input, messages, waiting, folder, requests };
        let refresh = json!({ "refreshSupport": true });
        let workspace = json!({ "inlayHint": refresh, "codeLens": refresh });
        let params = json!({
            "processId": null,
            "rootUri": null,
            "capabilities": { "workspace": workspace },
        });
        let answer = client.request("initialize", params);
        assert_eq!(answer["serverInfo"]["name"], "shardwise");
        client.notify("initialized", json!({}));
        client
    }

    /// Writes a file into its folder.
    pub(super) fn write(&self, name: &str, text: &str) {
        std::fs::write(self.folder.join(name), text).expect("a file can be written");
    }

    /// Opens a program, and returns its address.
    pub(super) fn open(&mut self, name: &str, text: &str) -> String {
        let uri = format!("file://{}", self.folder.join(name).display());
        let document = json!({ "uri": uri, "languageId": "shardwise", "version": 1, "text": text });
        self.notify("textDocument/didOpen", json!({ "textDocument": document }));
        uri
    }

    /// Replaces a range of a program.
    pub(super) fn change(&mut self, uri: &str, version: i32, range: Value, text: &str) {
        let params = json!({
            "textDocument": { "uri": uri, "version": version },
            "contentChanges": [{ "range": range, "text": text }],
        });
        self.notify("textDocument/didChange", params);
    }

    /// The next diagnostics of a version of a program.
    pub(super) fn diagnostics(&mut self, uri: &str, version: i32) -> Value {
        loop {
            let params = self.notified("textDocument/publishDiagnostics");
            if params["uri"] == uri && params["version"] == version {
                return params["diagnostics"].clone();
            }
        }
    }

    /// The first diagnostics of a program that are as wanted.
    pub(super) fn diagnostics_until(
        &mut self,
        uri: &str,
        is_wanted: impl Fn(&Value) -> bool,
    ) -> Value {
        loop {
            let params = self.notified("textDocument/publishDiagnostics");
            if params["uri"] == uri && is_wanted(&params["diagnostics"]) {
                return params["diagnostics"].clone();
            }
        }
    }

    /// Sends a request, and returns the result.
    pub(super) fn request(&mut self, method: &str, params: Value) -> Value {
        let answer = self.answer(method, params);
        assert!(answer.get("error").is_none(), "{method}: {answer}");
        answer["result"].clone()
    }

    /// Sends a request that the server refuses, and returns the error.
    pub(super) fn refused(&mut self, method: &str, params: Value) -> Value {
        let answer = self.answer(method, params);
        assert!(answer.get("error").is_some(), "{method}: {answer}");
        answer["error"].clone()
    }

    fn answer(&mut self, method: &str, params: Value) -> Value {
        self.requests += 1;
        let id = self.requests;
        self.send(&json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params }));
        loop {
            let message = self.receive();
            if message["id"] == id && message.get("method").is_none() {
                return message;
            }
            self.waiting.push_back(message);
        }
    }

    /// Sends a notification.
    pub(super) fn notify(&mut self, method: &str, params: Value) {
        self.send(&json!({ "jsonrpc": "2.0", "method": method, "params": params }));
    }

    /// The content of the next notification of a method, or request of the server.
    pub(super) fn notified(&mut self, method: &str) -> Value {
        let waited = self.waiting.iter().position(|message| message["method"] == method);
        if let Some(message) = waited.and_then(|at| self.waiting.remove(at)) {
            return message["params"].clone();
        }
        loop {
            let message = self.receive();
            if message["method"] == method {
                return message["params"].clone();
            }
            self.waiting.push_back(message);
        }
    }

    /// Ends the server as the protocol says, and returns its exit status.
    pub(super) fn end(&mut self) -> Option<i32> {
        self.request("shutdown", Value::Null);
        self.abort()
    }

    /// Ends the server without `shutdown`.
    pub(super) fn abort(&mut self) -> Option<i32> {
        self.notify("exit", Value::Null);
        self.input = None;
        self.child.wait().expect("the server ends").code()
    }

    fn send(&mut self, message: &Value) {
        let text = message.to_string();
        let input = self.input.as_mut().expect("the server is not ended");
        write!(input, "Content-Length: {}\r\n\r\n{text}", text.len()).expect("the server reads");
        input.flush().expect("the server reads");
    }

    fn receive(&self) -> Value {
        self.messages.recv_timeout(PATIENCE).expect("the server answers")
    }
}

/// A text after edits of one document.
pub(super) fn applied(text: &str, edits: &Value) -> String {
    let positions = Positions::new(text);
    let place = |place: &Value| {
        let number = |name: &str| place[name].as_u64().expect("a number") as u32;
        let at = Position { line: number("line"), character: number("character") };
        positions.offset(text, at)
    };
    let edits = edits.as_array().expect("edits").iter();
    let mut edits: Vec<(usize, usize, &str)> = edits
        .map(|edit| {
            let range = &edit["range"];
            let new = edit["newText"].as_str().expect("a text");
            (place(&range["start"]), place(&range["end"]), new)
        })
        .collect();
    edits.sort_unstable();
    let mut changed = text.to_owned();
    for (start, end, new) in edits.into_iter().rev() {
        changed.replace_range(start..end, new);
    }
    changed
}

/// The next message of a stream; `None` at its end.
fn read(stream: &mut impl BufRead) -> Option<Value> {
    let mut length = 0;
    loop {
        let mut line = String::new();
        if stream.read_line(&mut line).ok()? == 0 {
            return None;
        }
        if line.trim().is_empty() {
            break;
        }
        if let Some(number) = line.strip_prefix("Content-Length: ") {
            length = number.trim().parse().expect("a number");
        }
    }
    let mut content = vec![0; length];
    stream.read_exact(&mut content).ok()?;
    Some(serde_json::from_slice(&content).expect("JSON"))
}
