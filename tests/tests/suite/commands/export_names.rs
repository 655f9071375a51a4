//! Names of programs in exported text: whatever a file is called, it stays within the docstring or
//! the comment that names it.

use shardwise::export::{EXPORTS, JAX_FORMATS, JAX_STYLES};
use shardwise::{Options, Planned, plan};

const PROGRAM: &str = "hardware h100\nmesh X=2\ndim B=8, D=8, F=8\ninput x[B_X, D]\n\
    param W[D, F]\ny = x *D W\noutput y[B_X, F]\n";

/// Each is a syntax error or code within quotes, or ends a comment.
const NAMES: [&str; 8] = [
    "q\"\"\"x",
    "ends in a quote\"",
    "a\\N{DASH}",
    "\"\"\"+print(\"ran\")+\"\"\"",
    "back\\",
    "two\nlines",
    "return\rand\u{0}nothing",
    "é–1",
];

fn planned(name: &str) -> Planned {
    plan(name, PROGRAM, &Options::default()).unwrap_or_else(|error| panic!("{error}"))
}

/// The docstring of a module as Python reads it, and what follows.
fn docstring(module: &str) -> (String, &str) {
    let mut rest = module.strip_prefix("\"\"\"").expect("it begins with its docstring");
    let mut text = String::new();
    while !rest.starts_with("\"\"\"") {
        let letter = rest.chars().next().expect("the docstring ends");
        let (read, length) = match (letter, &rest[letter.len_utf8()..]) {
            ('\\', after) if after.starts_with('x') => {
                let code = u8::from_str_radix(&after[1..3], 16).expect("two digits");
                (char::from(code), 4)
            }
            ('\\', after) if after.starts_with(['"', '\\']) => (char::from(after.as_bytes()[0]), 2),
            ('\\', after) => panic!("an escape that Python refuses or reads otherwise: {after}"),
            (own, _) => (own, own.len_utf8()),
        };
        text.push(read);
        rest = &rest[length..];
    }
    (text, &rest[3..])
}

#[test]
fn a_name_stays_within_the_docstring_of_python() {
    let python = EXPORTS.iter().filter(|format| ["jax", "torch"].contains(&format.name));
    let writers: Vec<_> = python.chain(JAX_FORMATS).chain(JAX_STYLES).collect();
    for name in NAMES {
        let planned = planned(name);
        for writer in &writers {
            let module = (writer.write)(&planned).expect("it can be exported");
            let (text, code) = docstring(&module);
            assert!(text.starts_with(&format!("{name}: ")), "{} {module}", writer.name);
            assert!(code.starts_with("\n\nimport ") || code.starts_with("\n\nfrom "), "{module}");
            assert!(!module.contains(['\r', '\0']) && !code.contains("print(\"ran"), "{module}");
        }
    }
}

#[test]
fn a_name_stays_within_the_comment_of_mlir() {
    let sdy = EXPORTS.iter().find(|format| format.name == "sdy").expect("it is in the table");
    let rest = |name: &str| {
        let module = (sdy.write)(&planned(name)).expect("it can be exported");
        let lines: Vec<String> = module.lines().map(str::to_owned).collect();
        assert!(lines[0].starts_with("// ") && !module.contains(['\r', '\0', '\\']), "{module}");
        assert_eq!(lines[2].matches('"').count(), 2, "{module}");
        (lines[0].contains(": a plan of shardwise."), lines[3..].to_vec())
    };
    for name in NAMES {
        assert_eq!(rest(name), rest("plain"), "{name}");
    }
}
