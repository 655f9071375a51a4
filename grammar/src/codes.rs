//! Diagnostic codes of the syntax (`SW0xx`), and the type of a code.
//!
//! Codes about meaning, and the table of all codes, are in `shardwise_ir::codes`.

/// A diagnostic code and its meaning.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Code {
    /// `SW101`.
    pub code: &'static str,
    /// Kebab case, for people.
    pub name: &'static str,
    /// What is wrong, what triggers it, what to write instead.
    pub page: &'static str,
}

impl Code {
    /// What is wrong, in one sentence: the beginning of the page.
    pub fn summary(&self) -> &'static str {
        let line = self.page.lines().next().unwrap_or("");
        line.split_inclusive(". ").next().unwrap_or(line).trim_end()
    }
}

/// `unreadable-statement`
pub const UNREADABLE: &str = "SW001";
/// `missing-piece`
pub const MISSING: &str = "SW002";
/// `trailing-text`
pub const TRAILING: &str = "SW003";
/// `too-deep`
pub const TOO_DEEP: &str = "SW004";
/// `not-text`
pub const NOT_TEXT: &str = "SW005";
/// `plan-not-first`
pub const PLAN_NOT_FIRST: &str = "SW006";
/// `bad-dimension`
pub const BAD_DIM: &str = "SW007";

/// `other-notation`
pub const OTHER_NOTATION: &str = "SW008";

/// The codes of syntax errors with their pages, in order.
pub const CODES: &[Code] = &[
    Code {
        code: UNREADABLE,
        name: "unreadable-statement",
        page: "The line is not a statement of the language. A statement is a definition \
            (`C = A *J B`), or begins with a keyword. Keywords declare (`hardware`, `mesh`, `dim`, \
            `input`, `param`, `frozen`, `state`, `output`), open a block and say what holds in it \
            (`repeat`, `scan`, `pipeline`, `stage`, `microbatches`, `carry`, `next`, `checkpoint`, \
            `hold`), derive (`backward`, `optimizer`), or are about the program (`plan`, `phase`, \
            `assert`, `allow`).

Triggered by:

    mehs X=4

Write instead:

    mesh X=4",
    },
    Code {
        code: MISSING,
        name: "missing-piece",
        page: "Something had to stand here: a bracket, a name, a size, an operand.

Triggered by:

    input A[I, J

Write instead:

    input A[I, J]",
    },
    Code {
        code: TRAILING,
        name: "trailing-text",
        page: "The statement is complete before its line ends. Write one statement a line, and \
            comments after `#`.

Triggered by:

    dim B=8; D=4

Write instead:

    dim B=8, D=4",
    },
    Code {
        code: TOO_DEEP,
        name: "too-deep",
        page: "One statement nests more than 64 parentheses or chains more than 400 operators, \
            which is more than the compiler follows.

Triggered by:

    Y = gelu(gelu(gelu(… 100 times … X)))

Write instead, naming the parts:

    Y = gelu(X)
    Z = gelu(Y)",
    },
    Code {
        code: NOT_TEXT,
        name: "not-text",
        page: "The file is not UTF-8 text. Save it as UTF-8; names may hold any letter.",
    },
    Code {
        code: PLAN_NOT_FIRST,
        name: "plan-not-first",
        page: "`plan` makes the whole program explicit, so it is the first statement or none.

Triggered by:

    mesh X=4
    plan

Write instead:

    plan
    mesh X=4",
    },
    Code {
        code: BAD_DIM,
        name: "bad-dimension",
        page:
            "Brackets name dimensions, whose sizes `dim` declares. A name has one reading: where \
            the dimensions `d` and `d_ff` and an axis `ff` are declared, `d_ff` would have two.

Triggered by:

    dim D=512
    input A[128, D]

Write instead:

    dim N=128, D=512
    input A[N, D]",
    },
    Code {
        code: OTHER_NOTATION,
        name: "other-notation",
        page: "The statement is written as in another language or framework; the help has the \
            line to write. `In @ W` and `einsum` are products that name what they sum over, \
            `PartitionSpec` is the subscripts in brackets, `softmax(x, dim=-1)` is `softmax_D(x)`, \
            `x^2` is `square(x)`, and comments begin with `#`.

Triggered by:

    Out = In @ W

Write instead:

    Out = In *D W",
    },
];
