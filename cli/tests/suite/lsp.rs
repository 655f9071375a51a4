//! `lsp`: the server as an editor sees it, over standard input and output.

mod client;

use std::time::{Duration, Instant};

use serde_json::{Value, json};

use client::{Client, applied};

const MLP: &str = "hardware tpu-v5p\nmesh X=4\ndim B=1024, D=4096, F=16384\ninput In[B, D_X]\n\
    param W[D_X, F]\nOut = In *D W\noutput Out[B, F]\n";

/// The codes of diagnostics, in their order.
fn codes(diagnostics: &Value) -> Vec<&str> {
    let all = diagnostics.as_array().expect("a list");
    all.iter().map(|it| it["code"].as_str().expect("a code")).collect()
}

/// A range in one line.
fn range(line: u32, from: u32, to: u32) -> Value {
    let place = |character: u32| json!({ "line": line, "character": character });
    json!({ "start": place(from), "end": place(to) })
}

#[test]
fn errors_come_at_once_and_go_with_their_cause() {
    let mut client = Client::start("lsp-errors");
    let program = client.open("mlp.shard", &MLP.replace("*D W\n", "*D V\n"));
    let found = client.diagnostics(&program, 1);
    assert_eq!(codes(&found)[0], "SW101");
    assert_eq!(found[0]["range"], range(5, 12, 13));
    assert!(found[0]["message"].as_str().is_some_and(|text| text.contains("help: ")), "{found}");
    client.change(&program, 2, range(5, 12, 13), "W");
    assert_eq!(codes(&client.diagnostics(&program, 2)), [""; 0]);
    client.end();
}

#[test]
fn a_misspelt_chip_has_the_one_that_is_meant_as_its_fix() {
    let mut client = Client::start("lsp-chip");
    let text = MLP.replace("tpu-v5p", "tpu-v5q");
    let program = client.open("mlp.shard", &text);
    let found = client.diagnostics(&program, 1);
    assert_eq!(codes(&found), ["SW401"], "{found}");
    let params = json!({
        "textDocument": { "uri": program },
        "range": found[0]["range"],
        "context": { "diagnostics": found },
    });
    let actions = client.request("textDocument/codeAction", params);
    let meant = found[0]["message"].as_str().expect("a message");
    let meant = meant.split("did you mean `").nth(1).and_then(|rest| rest.split('`').next());
    let chip = meant.expect("the error has a chip");
    assert_eq!(actions[0]["title"], format!("write `{chip}` instead of `tpu-v5q`"));
    let fixed = applied(&text, &actions[0]["edit"]["changes"][&program]);
    assert_eq!(fixed, text.replace("tpu-v5q", chip));
    client.end();
}

#[test]
fn lints_come_from_the_background_with_the_fixes_of_check() {
    let mut client = Client::start("lsp-lints");
    let text = MLP.replace("F=16384", "F=16384, J=8");
    let program = client.open("mlp.shard", &text);
    let found = client.diagnostics_until(&program, |found| !codes(found).is_empty());
    assert_eq!(codes(&found), ["SW352"], "{found}");
    let params = json!({
        "textDocument": { "uri": program },
        "range": found[0]["range"],
        "context": { "diagnostics": found },
    });
    let actions = client.request("textDocument/codeAction", params);
    let kinds: Vec<&str> =
        actions.as_array().expect("a list").iter().filter_map(|it| it["kind"].as_str()).collect();
    assert_eq!(kinds, ["quickfix", "quickfix", "source.fixAll"], "{actions}");
    assert_eq!(actions[0]["isPreferred"], true);
    for fix in [&actions[0], &actions[2]] {
        assert_eq!(applied(&text, &fix["edit"]["changes"][&program]), MLP, "{fix}");
    }
    let allowed = applied(&text, &actions[1]["edit"]["changes"][&program]);
    assert!(allowed.contains("allow SW352 dim B=1024"), "{allowed}");
    client.end();
}

#[test]
fn places_count_utf_16_units() {
    let mut client = Client::start("lsp-utf16");
    let text = format!("{}γ𝛼 = In *D V # 𝛼\n", MLP.replace("output Out[B, F]\n", ""));
    let program = client.open("mlp.shard", &text);
    let found = client.diagnostics(&program, 1);
    assert_eq!(codes(&found)[0], "SW101");
    // `γ` is one unit, `𝛼` two.
    assert_eq!(found[0]["range"], range(6, 12, 13));
    client.change(&program, 2, range(6, 12, 13), "W");
    assert!(!codes(&client.diagnostics(&program, 2)).contains(&"SW101"));
    client.end();
}

#[test]
fn formatting_is_that_of_fmt() {
    let mut client = Client::start("lsp-fmt");
    let text = MLP.replace("dim B=1024, D=4096", "dim   B = 1024,D=4096 # sizes");
    let formatted = shardwise::format("mlp.shard", &text).expect("it can be parsed");
    let program = client.open("mlp.shard", &text);
    let params = json!({
        "textDocument": { "uri": program },
        "options": { "tabSize": 2, "insertSpaces": true },
    });
    let edits = client.request("textDocument/formatting", params);
    assert_eq!(applied(&text, &edits), formatted);
    client.end();
}

#[test]
fn outline_and_folds_follow_blocks() {
    let mut client = Client::start("lsp-outline");
    let text = "hardware h100\nmesh X=4\ndim B=8, D=4\ninput x[B_X, D]\nrepeat L=2 {\n  carry x\n  \
        y = gelu(x)\n  x = x + y\n}\noutput x[B_X, D]\n";
    let program = client.open("layers.shard", text);
    let params = json!({ "textDocument": { "uri": program } });
    let symbols = client.request("textDocument/documentSymbol", params.clone());
    let names: Vec<&str> =
        symbols.as_array().expect("a list").iter().filter_map(|it| it["name"].as_str()).collect();
    assert_eq!(names, ["h100", "X", "B", "D", "x", "repeat L=2"]);
    assert_eq!(symbols[5]["children"][0]["name"], "y");
    let folds = client.request("textDocument/foldingRange", params);
    assert_eq!((&folds[0]["startLine"], &folds[0]["endLine"]), (&json!(4), &json!(8)));
    client.end();
}

#[test]
fn a_hardware_file_and_a_configuration_are_read_as_check_does() {
    let mut client = Client::start("lsp-files");
    let text =
        MLP.replace("hardware tpu-v5p", "hardware \"hw.toml\"").replace("F=16384", "F=16384, J=8");
    client.write("hw.toml", "[chip]\nbase = \"tpu-v5p\"\n");
    client.write("shardwise.toml", "ignore = [\"SW352\"]\n");
    let program = client.open("mlp.shard", &text);
    let first = client.diagnostics(&program, 1);
    assert_eq!(codes(&first), [""; 0], "{first}");
    // The background has nothing to add.
    assert_eq!(codes(&client.diagnostics(&program, 1)), [""; 0]);
    client.write("hw.toml", "[chip]\nbase = \"tpu-v9\"\n");
    client.notify("textDocument/didSave", json!({ "textDocument": { "uri": program } }));
    let found = client.diagnostics_until(&program, |found| !codes(found).is_empty());
    assert!(found[0]["message"].as_str().is_some_and(|it| it.contains("hw.toml")), "{found}");
    client.end();
}

/// A place of a program.
fn place_of(uri: &str, line: u32, character: u32) -> Value {
    json!({
        "textDocument": { "uri": uri },
        "position": { "line": line, "character": character },
    })
}

#[test]
fn names_are_found_and_renamed() {
    let mut client = Client::start("lsp-names");
    let program = client.open("mlp.shard", MLP);
    let definition = client.request("textDocument/definition", place_of(&program, 5, 12));
    assert_eq!(definition["range"], range(4, 6, 7));
    let mut params = place_of(&program, 4, 6);
    params["context"] = json!({ "includeDeclaration": false });
    let references = client.request("textDocument/references", params);
    assert_eq!(references, json!([{ "uri": program, "range": range(5, 12, 13) }]));
    let highlights = client.request("textDocument/documentHighlight", place_of(&program, 4, 6));
    assert_eq!(highlights[0]["kind"], 3);
    let prepared = client.request("textDocument/prepareRename", place_of(&program, 1, 5));
    assert_eq!(prepared, json!({ "range": range(1, 5, 6), "placeholder": "X" }));
    let mut params = place_of(&program, 1, 5);
    params["newName"] = json!("model");
    let edit = client.request("textDocument/rename", params);
    let renamed = applied(MLP, &edit["changes"][&program]);
    assert_eq!(renamed, MLP.replace("X=4", "model=4").replace("D_X", "D_model"));
    let mut params = place_of(&program, 1, 5);
    params["newName"] = json!("two words");
    let refused = client.refused("textDocument/rename", params);
    assert!(refused["message"].as_str().is_some_and(|it| it.contains("two words")), "{refused}");
    client.end();
}

#[test]
fn completions_replace_what_is_typed() {
    let mut client = Client::start("lsp-completion");
    let text = MLP.replace("output Out[B, F]", "output Out[B_, F]");
    let program = client.open("mlp.shard", &text);
    let items = client.request("textDocument/completion", place_of(&program, 6, 13));
    assert_eq!(items[0]["label"], "X");
    assert_eq!(applied(&text, &json!([items[0]["textEdit"]])), MLP.replace("t[B", "t[B_X"));
    client.change(&program, 2, range(5, 6, 13), "gel");
    let items = client.request("textDocument/completion", place_of(&program, 5, 9));
    let all = items.as_array().expect("a list");
    let gelu = all.iter().find(|item| item["label"] == "gelu").expect("a function");
    assert_eq!(gelu["detail"], "gelu(x)");
    assert_eq!(gelu["textEdit"]["range"], range(5, 6, 9));
    client.end();
}

#[test]
fn parts_of_the_text_have_a_type() {
    let mut client = Client::start("lsp-tokens");
    let program = client.open("mlp.shard", "# α\nmesh X=4\n");
    let params = json!({ "textDocument": { "uri": program } });
    let tokens = client.request("textDocument/semanticTokens/full", params);
    // Line, character, length, type, modifiers: a comment, a keyword, the definition of an axis.
    assert_eq!(tokens["data"], json!([0, 0, 3, 1, 0, 1, 0, 4, 0, 0, 0, 5, 1, 4, 1]));
    client.end();
}

#[test]
fn a_plan_comes_from_the_background() {
    let mut client = Client::start("lsp-plan");
    let program = client.open("mlp.shard", MLP);
    client.notified("workspace/codeLens/refresh");
    let params = json!({ "textDocument": { "uri": program } });
    let lenses = client.request("textDocument/codeLens", params.clone());
    let title = lenses[0]["command"]["title"].as_str().expect("a title");
    assert!(title.starts_with("step ") && title.ends_with("optimal plan"), "{title}");
    let mut all = params;
    all["range"] = json!({ "start": { "line": 0, "character": 0 },
        "end": { "line": 99, "character": 0 } });
    let hints = client.request("textDocument/inlayHint", all.clone());
    let labels = |hints: &Value| -> Vec<String> {
        let all = hints.as_array().expect("a list").iter();
        all.map(|hint| hint["label"].as_str().expect("a label").to_owned()).collect()
    };
    let found = labels(&hints);
    assert_eq!(found[0], "[B, F] {U_X}", "{found:?}");
    assert!(found[1].starts_with("AllReduce_X(Out) "), "{found:?}");
    let place = |hint: &Value| hint["position"].clone();
    assert_eq!(place(&hints[0]), json!({ "line": 5, "character": 3 }));
    let hover = client.request("textDocument/hover", place_of(&program, 5, 1));
    let text = hover["contents"]["value"].as_str().expect("a text");
    assert!(text.contains("33.6 MB") && text.contains("AllReduce_X"), "{text}");
    // Until there is another plan, hints move with their lines.
    client.change(&program, 2, range(3, 0, 0), "# one more line\n");
    let moved = client.request("textDocument/inlayHint", all);
    assert_eq!(place(&moved[0]), json!({ "line": 6, "character": 3 }));
    client.end();
}

#[test]
fn an_edit_cancels_the_search_of_the_text_before_it() {
    // This search takes half a minute of processor time.
    let mut client = Client::start_with("lsp-cancel", &["--objective", "scheduled"]);
    let path = "tests/programs/models/llama3-405b-train.shard";
    let text = std::fs::read_to_string(crate::common::root().join(path)).expect("a program");
    let program = client.open("model.shard", &text);
    client.diagnostics(&program, 1);
    // The best plan after two seconds; the search goes on.
    client.notified("workspace/codeLens/refresh");
    let begun = Instant::now();
    client.change(&program, 2, range(0, 0, 0), "hardware missing\n");
    client.diagnostics(&program, 2);
    let lines = u32::try_from(text.lines().count()).expect("few lines");
    let all = json!({ "start": { "line": 0, "character": 0 },
        "end": { "line": lines + 1, "character": 0 } });
    client.change(&program, 3, all, MLP);
    // Until then the lens is that of the plan before.
    loop {
        client.notified("workspace/codeLens/refresh");
        let lenses =
            client.request("textDocument/codeLens", json!({ "textDocument": { "uri": program } }));
        let title = lenses[0]["command"]["title"].as_str().expect("a title");
        assert!(begun.elapsed() < Duration::from_secs(20), "{title}");
        if title.ends_with("optimal plan") {
            break;
        }
    }
    client.end();
}

#[test]
fn the_server_ends_as_the_protocol_says() {
    let mut client = Client::start("lsp-end");
    let refused = client.refused("textDocument/unheardOf", json!({}));
    assert_eq!(refused["code"], -32601);
    let refused = client.refused("textDocument/formatting", json!({ "textDocument": 3 }));
    assert_eq!(refused["code"], -32602);
    assert_eq!(client.end(), Some(0));
    assert_eq!(Client::start("lsp-abort").abort(), Some(1), "no `shutdown` before the end");
}

#[test]
fn a_message_that_cannot_be_read_is_named() {
    let framed = |text: &str| format!("Content-Length: {}\r\n\r\n{text}", text.len());
    let params = "{\"processId\":null,\"rootUri\":null,\"capabilities\":{}}";
    let start =
        format!("{{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"initialize\",\"params\":{params}}}");
    let then = "{\"jsonrpc\":\"2.0\",\"method\":\"initialized\",\"params\":{}}";
    let input = framed(&start) + &framed(then) + &framed("{wrong}");
    let output = crate::run(&["lsp"], &input);
    let message = crate::common::text(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{message}");
    assert!(message.contains("cannot be read") && message.contains("{wrong}"), "{message}");
}

/// The message is not there: nothing is read, and nothing allocated for it.
#[test]
fn a_message_of_an_absurd_length_ends_the_server_with_a_sentence() {
    for (length, reason) in [
        ("1000000000000000", "is more than 1073741824 bytes"),
        ("99999999999999999999", "number too large"),
    ] {
        let output = crate::run(&["lsp"], &format!("Content-Length: {length}\r\n\r\n{{}}"));
        let message = crate::common::text(&output.stderr);
        assert_eq!(output.status.code(), Some(1), "{message}");
        assert!(message.contains("a message of the editor cannot be read"), "{message}");
        assert!(message.contains(reason), "{message}");
    }
}
