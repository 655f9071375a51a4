//! The names of a program: each place where one stands, and what it names.
//!
//! Names are found in the syntax tree and not in the resolved program, since an editor asks most
//! while a statement is unfinished: the tree has the other statements, the resolved program does
//! not exist. The rules that decide what a word means are few: a word of a subscript is an axis if
//! the mesh has it, else letters that are axes; `dW` is the gradient of `W`, and `D'` has the size
//! of `D`, where neither is declared.

mod collect;

use shardwise_grammar::ast;
use shardwise_ir::{Role, Span};

/// What a name is for. The order is that of an outline.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    /// A chip, of a preset or a hardware file.
    Hardware,
    /// A mesh axis.
    Axis,
    /// A dimension.
    Dim,
    /// The layers of a `repeat`.
    Block,
    /// A declared value or a result.
    Value,
    /// A function.
    Function,
    /// A collective.
    Collective,
    /// An element type.
    Dtype,
    /// A diagnostic code.
    Code,
}

/// A place where a name stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Occurrence {
    /// The name itself.
    pub span: Span,
    /// The word that it is part of: `dW` for a use of `W`, `XY` for `X`; else the same.
    pub word: Span,
    /// What it is for.
    pub kind: Kind,
    /// The name.
    pub name: String,
    /// Whether it is declared or defined here.
    pub is_definition: bool,
}

impl Occurrence {
    /// Whether two are of one thing.
    pub fn is_same(&self, other: &Self) -> bool {
        self.kind == other.kind && self.name == other.name
    }
}

/// All names of a program, in its order.
#[derive(Clone, Debug, Default)]
pub struct Names {
    occurrences: Vec<Occurrence>,
    roles: Vec<(String, Role)>,
}

impl Names {
    /// The names of a parsed program.
    pub(super) fn of(file: &ast::File) -> Self {
        collect::names(file)
    }

    /// Each place.
    pub fn all(&self) -> &[Occurrence] {
        &self.occurrences
    }

    /// What stands at a byte, or ends there; of an axis in a word of several, the letter.
    pub fn at(&self, offset: usize) -> Option<&Occurrence> {
        let holds = |span: Span| span.start <= offset && offset <= span.end;
        let begins = |span: Span| span.start <= offset && offset < span.end;
        let find = |test: &dyn Fn(&Occurrence) -> bool| self.occurrences.iter().find(|it| test(it));
        find(&|it| begins(it.span))
            .or_else(|| find(&|it| begins(it.word)))
            .or_else(|| find(&|it| holds(it.word)))
    }

    /// The places in a part of the text.
    pub fn within(&self, span: Span) -> &[Occurrence] {
        let start = self.occurrences.partition_point(|it| it.span.start < span.start);
        let end = self.occurrences.partition_point(|it| it.span.start < span.end);
        &self.occurrences[start..end.max(start)]
    }

    /// Every place of the same thing.
    pub fn same<'n>(&'n self, of: &'n Occurrence) -> impl Iterator<Item = &'n Occurrence> {
        self.occurrences.iter().filter(move |it| it.is_same(of))
    }

    /// Where it is declared or defined.
    pub fn definition<'n>(&'n self, of: &'n Occurrence) -> Option<&'n Occurrence> {
        self.same(of).find(|it| it.is_definition)
    }

    /// What is declared or defined, of one kind, in the order of the program.
    pub fn defined(&self, kind: Kind) -> impl Iterator<Item = &Occurrence> {
        self.occurrences.iter().filter(move |it| it.is_definition && it.kind == kind)
    }

    /// The role that a value is declared with; `None` for a result.
    pub fn role(&self, value: &str) -> Option<Role> {
        self.roles.iter().find(|(name, _)| name == value).map(|(_, role)| *role)
    }
}

#[cfg(test)]
mod tests {
    use super::super::Document;
    use super::{Kind, Occurrence};

    /// What stands at the first place of `mark` in a text, and one byte on for each `skip`.
    fn at(text: &str, mark: &str, skip: usize) -> Option<Occurrence> {
        let offset = text.find(mark).expect("it is there") + skip;
        Document::new("a.shard", text).names().at(offset).cloned()
    }

    const PROGRAM: &str = "mesh X=4, Y=2, data=2\ndim B=8, D=4, F=4*D\ninput In[B_XY, D_data]\n\
        param W[D, F]\nH = In *D W\nLoss = sum_{B,F}(H)\nbackward from Loss\noutput dW[D, F]\n\
        output dIn[B', D]\n";

    #[test]
    fn letters_of_a_word_are_axes() {
        let names: Vec<_> = (0..2).map(|skip| at(PROGRAM, "XY, ", skip)).collect();
        let names: Vec<&str> = names.iter().flatten().map(|it| it.name.as_str()).collect();
        assert_eq!(names, ["X", "Y"]);
        let data = at(PROGRAM, "data]", 2).expect("an axis");
        assert_eq!((data.kind, data.name.as_str()), (Kind::Axis, "data"));
    }

    #[test]
    fn gradients_and_primes_are_uses_of_what_they_come_from() {
        let gradient = at(PROGRAM, "dW", 0).expect("a value");
        assert_eq!((gradient.name.as_str(), &PROGRAM[gradient.span.start..gradient.span.end]), {
            ("W", "W")
        });
        assert_eq!(at(PROGRAM, "B',", 1).expect("a dimension").name, "B");
    }

    #[test]
    fn every_name_of_a_correct_program_is_declared() {
        let document = Document::new("a.shard", PROGRAM);
        let names = document.names();
        let is_own = |it: &&Occurrence| {
            matches!(it.kind, Kind::Axis | Kind::Dim | Kind::Block | Kind::Value)
        };
        let undeclared =
            names.all().iter().filter(is_own).filter(|it| names.definition(it).is_none());
        assert_eq!(undeclared.collect::<Vec<_>>(), Vec::<&Occurrence>::new());
        let uses = |mark| names.same(&at(PROGRAM, mark, 0).expect("a name")).count();
        assert_eq!((uses("D=4"), uses("W[D"), uses("Loss =")), (7, 3, 2));
    }
}
